package main

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// holder holds memory that Go's garbage collector does not see, so that exactly what was asked for is there, and is gone at once
// when it is freed.
type holder struct {
	mutex sync.Mutex
	held  []byte
}

// set holds so many bytes from now on, each page of them touched; 0 frees them.
func (h *holder) set(bytes int64) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.held != nil {
		if err := syscall.Munmap(h.held); err != nil {
			return fmt.Errorf("freeing %d bytes: %w", len(h.held), err)
		}
		h.held = nil
	}
	if bytes <= 0 {
		return nil
	}
	held, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("holding %d bytes: %w", bytes, err)
	}
	for i := 0; i < len(held); i += os.Getpagesize() {
		held[i] = 1
	}
	h.held = held
	return nil
}

func (h *holder) now() int64 {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return int64(len(h.held))
}
