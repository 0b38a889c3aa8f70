package policy

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// limits bound what compiling rules takes. Rules that exceed them are refused, and those in force
// stay.
type limits struct {
	source int    // bytes of expressions that are compiled, which decides alike on every machine; 0 = no limit
	heap   uint64 // bytes by which the process's heap grows
	hang   time.Duration
}

var (
	// overlayLimits are for one overlay, which takes milliseconds, and hundreds of them beside many
	// others. It takes 2 KiB of expressions to change a param, and a second of one core compiles
	// some 100 KiB.
	overlayLimits = limits{source: 1 << 20, heap: 256 << 20, hang: time.Minute}
	// fileLimits are for all files, and the test tables among them. A process whose files do not compile
	// at its start ends, so a starved node must have time for what takes a second elsewhere.
	fileLimits = limits{heap: 1 << 30, hang: 10 * time.Minute}
)

const (
	// grace is how long canceled work may take to stop before it is abandoned.
	grace = time.Second
	// lookInterval is the interval between heap measurements.
	lookInterval = 20 * time.Millisecond
	// firstRetry and longestRetry are the time until work that a busy process or machine may have
	// stopped is tried again. It doubles.
	firstRetry, longestRetry = time.Minute, time.Hour
)

// excessive is the error of work that exceeded its limits.
type excessive struct {
	error
	final   bool            // the same work exceeds them again
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

// within does work in a goroutine of its own, within limits. Work calls spend before each expression,
// with the bytes of its source, and ends when that returns an error. Work that does not end is
// abandoned, because nothing can end it from outside.
// The error is an *excessive when the limits were exceeded. A panic is an error, too.
func within[T any](l limits, clk clock.Clock, doing, about string, work func(spend func(size int) error) (T, error)) (out T, err error) {
	var why atomic.Pointer[excessive]
	spent := 0
	spend := func(size int) error {
		if spent += size; l.source > 0 && spent > l.source {
			why.CompareAndSwap(nil, &excessive{final: true, error: fmt.Errorf(
				"%s %s takes more than %d KiB of expressions, with those it can meet in other overlays: make it smaller or simpler", doing, about, l.source>>10)})
		}
		if err := why.Load(); err != nil {
			return err
		}
		return nil
	}
	begin := heap()
	type result struct {
		out T
		err error
	}
	done, ended := make(chan result, 1), make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil { // an overlay must not end the process, nor its next start
				debug.PrintStack() // to standard error, as the log
				done <- result{err: fmt.Errorf("%s %s panics; please report this: %v", doing, about, p)}
			}
		}()
		made, err := work(spend)
		if exceeded := why.Load(); err != nil && exceeded != nil {
			err = exceeded
		}
		done <- result{made, err}
	}()
	deadline, look := clk.NewTimer(l.hang), clk.NewTimer(lookInterval)
	defer deadline.Stop()
	defer look.Stop()
	for {
		exceeded := &excessive{}
		select {
		case made := <-done:
			return made.out, made.err
		case <-deadline.C():
			exceeded.error = fmt.Errorf("%s %s has not ended within %s, because this machine is busy or because it never does: it is tried again", doing, about, l.hang)
		case <-look.C():
			look.Reset(lookInterval)
			if heap() < begin+l.heap {
				continue
			}
			if runtime.GC(); heap() < begin+l.heap { // it was garbage
				continue
			}
			exceeded.error = fmt.Errorf("%s %s takes more than %d MiB of memory, with what else this process does: it is tried again; make it smaller or simpler if this persists", doing, about, l.heap>>20)
		}
		why.CompareAndSwap(nil, exceeded)
		select {
		case <-ended:
		case <-time.After(grace):
			exceeded.running = ended
		}
		return out, exceeded
	}
}

// heap is the bytes of all objects, garbage included.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
