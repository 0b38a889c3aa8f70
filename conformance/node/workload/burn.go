package main

import (
	"sync"
	"time"
)

// period is how often a burner works and rests. It is no divisor of the kernel's 100 ms, so that a throttled burner does not fall
// into step with it.
const period = 30 * time.Millisecond

// burner uses CPU. Its zero value rests.
type burner struct {
	mutex sync.Mutex
	milli int64
	work  func(d time.Duration, stop <-chan struct{}) // nil = spin
	stop  chan struct{}                               // of those that burn now
}

// set burns so many milli-cores from now on, as far as the kernel lets it.
func (b *burner) set(milli int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.stop != nil {
		close(b.stop)
	}
	b.milli, b.stop = milli, make(chan struct{})
	work := b.work
	if work == nil {
		work = spin
	}
	for rest := milli; rest > 0; rest -= 1000 {
		go burn(min(rest, 1000), work, b.stop)
	}
}

func (b *burner) now() int64 {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.milli
}

// burn works for a share of each period, of one core.
func burn(milli int64, work func(time.Duration, <-chan struct{}), stop <-chan struct{}) {
	share := period * time.Duration(milli) / 1000
	for {
		work(share, stop)
		select {
		case <-stop:
			return
		case <-time.After(period - share):
		}
	}
}

// spin keeps a core busy for a time.
func spin(d time.Duration, stop <-chan struct{}) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-stop:
			return
		default:
		}
	}
}
