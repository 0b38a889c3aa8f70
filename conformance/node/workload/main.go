// Command workload is what tests run in pods of real nodes: a program that burns CPU and holds memory on request, over
// HTTP, and says what the kernel allows it. It is static and needs nothing but itself, so it is an image of one file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("workload", flag.ContinueOnError)
	address := flags.String("address", ":8080", "address to listen on")
	burn := flags.Int64("burn", 0, "milli-cores to burn from the start")
	hold := flags.Int64("hold", 0, "bytes to hold from the start")
	start := flags.Duration("start", 0, "how long the start takes: a whole core is burnt, and nobody is served")
	if err := flags.Parse(args); err != nil {
		return err
	}
	w := &workload{exit: os.Exit}
	if *start > 0 {
		w.cpu.set(1000)
		select {
		case <-time.After(*start):
		case <-ctx.Done():
			return nil
		}
	}
	w.cpu.set(*burn)
	if err := w.memory.set(*hold); err != nil {
		return err
	}
	server := &http.Server{Addr: *address, Handler: w.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

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

// workload serves:
//
//	GET  /                 report
//	POST /burn?milli=N     burn N milli-cores
//	POST /hold?bytes=N     hold N bytes
//	POST /exit?code=N      end
type workload struct {
	cpu    burner
	memory holder
	exit   func(code int)
}

// report says what the program does, and what the files of its cgroup say: those of cgroup v2, as the container sees them.
type report struct {
	Milli  int64             `json:"milli"`
	Bytes  int64             `json:"bytes"`
	Cgroup map[string]string `json:"cgroup"`
}

// cgroupFiles are the files of the cgroup that a report holds.
var cgroupFiles = []string{"cpu.max", "cpu.weight", "cpu.stat", "memory.max", "memory.current", "memory.events"}

// cgroupFolder is where a container finds its own cgroup.
const cgroupFolder = "/sys/fs/cgroup"

func (w *workload) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(out http.ResponseWriter, _ *http.Request) { w.answer(out) })
	mux.HandleFunc("POST /burn", w.order("milli", func(n int64) error { w.cpu.set(n); return nil }))
	mux.HandleFunc("POST /hold", w.order("bytes", w.memory.set))
	mux.HandleFunc("POST /exit", w.order("code", func(n int64) error { w.exit(int(n)); return nil }))
	return mux
}

// order carries out an order with a number, and answers with the report.
func (w *workload) order(parameter string, do func(int64) error) http.HandlerFunc {
	return func(out http.ResponseWriter, request *http.Request) {
		n, err := strconv.ParseInt(request.URL.Query().Get(parameter), 10, 64)
		if err != nil || n < 0 {
			http.Error(out, fmt.Sprintf("%s must be a number that is not negative: %q", parameter, request.URL.Query().Get(parameter)), http.StatusBadRequest)
			return
		}
		if err := do(n); err != nil {
			http.Error(out, err.Error(), http.StatusInsufficientStorage)
			return
		}
		w.answer(out)
	}
}

func (w *workload) answer(out http.ResponseWriter) {
	r := report{Milli: w.cpu.now(), Bytes: w.memory.now(), Cgroup: map[string]string{}}
	for _, name := range cgroupFiles {
		if text, err := os.ReadFile(filepath.Join(cgroupFolder, name)); err == nil { // outside of a container there are none
			r.Cgroup[name] = strings.TrimSpace(string(text))
		}
	}
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(r)
}
