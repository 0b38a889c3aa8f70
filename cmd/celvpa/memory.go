package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/cycle"
)

// gcPercent is how far the heap may grow beyond live data, in percent, before a garbage collection; Go's default is 100. Under
// many reviews it takes up to a seventh more CPU than 100, and 16 MiB less.
const gcPercent = 50

// updaterPercent is gcPercent for a process that only runs the updater: it keeps much of the cluster in memory, and works for
// seconds in a minute.
const updaterPercent = 20

// largeHeap is how much live data makes a process collect garbage twice as often: half of gigabytes
// is more than CPU time is worth.
const largeHeap = 1 << 30

// When afterWork looks and acts. Sizes are in bytes allocated.
const (
	lookInterval = 5 * time.Second
	quietBelow   = 4 << 20  // per interval; more is work
	releaseFrom  = 16 << 20 // since the last release; less is not worth a collection
)

// afterWork returns memory to the system after each burst of work. A component works for a second in a minute, and would otherwise
// keep for the rest of it what that second needed. During work it does nothing.
type afterWork struct {
	clock     clock.WithTicker
	allocated func() uint64 // bytes since the process started
	release   func()
	live      func() uint64 // bytes in use after the last garbage collection
	percent   int           // by which a heap that is not large may grow
	grow      func(percent int)

	growth         int    // percent that is in force
	last, released uint64 // allocated bytes at the last look, and at the last release
}

// saveMemory makes the process save memory, with the heap growing by a percentage. If users set $GOGC or $GOMEMLIMIT, it leaves
// memory to Go and returns nil.
func saveMemory(percent int) *afterWork {
	for _, own := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(own) != "" {
			return nil
		}
	}
	debug.SetGCPercent(percent)
	return &afterWork{
		clock: clock.RealClock{}, allocated: readMetric("/gc/heap/allocs:bytes"), release: debug.FreeOSMemory,
		live: readMetric("/gc/heap/live:bytes"), percent: percent, growth: percent, grow: func(percent int) { debug.SetGCPercent(percent) },
	}
}

// NeedLeaderElection is false: every replica saves memory.
func (a *afterWork) NeedLeaderElection() bool { return false }

// Start implements the manager's Runnable.
func (a *afterWork) Start(ctx context.Context) error {
	cycle.Every(ctx, a.clock, lookInterval, a.look)
	return nil
}

func (a *afterWork) look() {
	if growth := a.growthOf(a.live()); growth != a.growth {
		a.grow(growth)
		a.growth = growth
	}
	now := a.allocated()
	if now-a.last < quietBelow && now-a.released >= releaseFrom {
		a.release()
		a.released = now
	}
	a.last = now
}

// growthOf is by how many percent a heap with so much live data may grow.
func (a *afterWork) growthOf(live uint64) int {
	if live > largeHeap {
		return max(a.percent/2, updaterPercent)
	}
	return a.percent
}

// readMetric reads a number of the Go runtime.
func readMetric(name string) func() uint64 {
	return func() uint64 {
		sample := []metrics.Sample{{Name: name}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
}
