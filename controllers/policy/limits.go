package policy

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/celvpa/celvpa/crds/underway"
)

// limits bound the time and memory of compiling rules. Rules that exceed them are refused, and
// those in force stay.
type limits struct {
	time  time.Duration
	bytes uint64 // of heap growth
}

var (
	// overlayLimits are for one overlay, which takes milliseconds, and hundreds of them beside many
	// others.
	overlayLimits = limits{time: 10 * time.Second, bytes: 256 << 20}
	// fileLimits are for all files, and the test tables among them.
	fileLimits = limits{time: 2 * time.Minute, bytes: 1 << 30}
)

const (
	// grace is how long canceled work may take to stop before it is abandoned.
	grace = time.Second
	// lookInterval is the interval between heap measurements.
	lookInterval = 20 * time.Millisecond
)

// excessive is the error of work that exceeded its limits.
type excessive struct {
	error
	running <-chan struct{} // closed when abandoned work ends; nil = the work has ended
}

// going reports whether the work is still running.
func (e *excessive) going() bool {
	if e == nil || e.running == nil {
		return false
	}
	select {
	case <-e.running:
		return false
	default:
		return true
	}
}

// run does work in a goroutine of its own, within limits. Work calls stop from time to time and
// ends when that returns an error. Work that does not end is abandoned, because nothing can end it
// from outside, and the process is not ready until it does. The error is an *excessive when the
// limits were exceeded. A panic is an error, too.
func (l limits) run(doing, about string, work func(stop func() error) error) error {
	var why atomic.Pointer[error]
	stop := func() error {
		if err := why.Load(); err != nil {
			return *err
		}
		return nil
	}
	done, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		defer underway.Begin(doing, l.time+grace, false, func() string { return about })()
		defer func() {
			if p := recover(); p != nil { // an overlay must not end the process, nor its next start
				debug.PrintStack() // to standard error, as the log
				done <- fmt.Errorf("%s %s panics; please report this: %v", doing, about, p)
			}
		}()
		done <- work(stop)
	}()
	deadline, look := time.NewTimer(l.time), time.NewTicker(lookInterval)
	defer deadline.Stop()
	defer look.Stop()
	begin := heap()
	for {
		var exceeded error
		select {
		case err := <-done:
			return err
		case <-deadline.C:
			exceeded = fmt.Errorf("%s %s takes longer than %s: make it smaller or simpler", doing, about, l.time)
		case <-look.C:
			if heap() < begin+l.bytes {
				continue
			}
			if runtime.GC(); heap() < begin+l.bytes { // it was garbage
				continue
			}
			exceeded = fmt.Errorf("%s %s takes more than %d MiB of memory: make it smaller or simpler", doing, about, l.bytes>>20)
		}
		why.Store(&exceeded)
		select {
		case <-ended:
			return &excessive{error: exceeded}
		case <-time.After(grace):
			return &excessive{error: exceeded, running: ended}
		}
	}
}

// heap is the bytes of all objects, garbage included.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
