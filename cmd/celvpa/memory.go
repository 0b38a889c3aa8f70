package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/utils/clock"
)

// gcPercent is how far the heap may grow beyond what is live, in percent, before garbage is collected; Go's own default is
// 100. It costs about a sixth more CPU.
const gcPercent = 50

// updaterPercent holds for the updater alone: most of its heap is what it knows of the cluster, and it works for seconds in a minute.
const updaterPercent = 20

// What afterWork goes by. Bytes.
const (
	lookInterval = 5 * time.Second
	stillQuiet   = 4 << 20  // more than that in one interval is work
	worthwhile   = 16 << 20 // less than that since the last time is not worth a collection
)

// afterWork gives memory back to the system when work is done: a component works for a second in a minute, and would hold
// for all of it what that second needed. While there is work it does nothing, so a busy webhook keeps its memory.
type afterWork struct {
	clock     clock.WithTicker
	allocated func() uint64 // bytes since the process began
	release   func()

	last, released uint64 // what was allocated at the last look, and when memory was given back last
}

// saveMemory makes the process thrifty. Users who say with $GOGC or $GOMEMLIMIT how memory is to be managed get Go's own
// way: the result is nil then. percent is how far the heap may grow.
func saveMemory(percent int) *afterWork {
	for _, own := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(own) != "" {
			return nil
		}
	}
	debug.SetGCPercent(percent)
	return &afterWork{clock: clock.RealClock{}, allocated: allocated, release: debug.FreeOSMemory}
}

// NeedLeaderElection lets every replica do it.
func (a *afterWork) NeedLeaderElection() bool { return false }

// Start implements the manager's Runnable.
func (a *afterWork) Start(ctx context.Context) error {
	ticker := a.clock.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			a.look()
		}
	}
}

func (a *afterWork) look() {
	now := a.allocated()
	if now-a.last < stillQuiet && now-a.released >= worthwhile {
		a.release()
		a.released = now
	}
	a.last = now
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
