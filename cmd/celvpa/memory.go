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

// growth is by how many percent the heap may grow beyond live data before a garbage collection; Go's default is 100.
type growth struct {
	small int
	large int    // for a heap whose live data takes more than from bytes
	from  uint64 // bytes
}

var (
	// usualGrowth takes, under many reviews, up to a seventh more CPU than 100, and 16 MiB less. Half of gigabytes is more than CPU
	// time is worth.
	usualGrowth = growth{small: 50, large: 25, from: 1 << 30}
	// updaterGrowth is for a process that only runs the updater: it keeps much of the cluster in memory, and works for seconds in a
	// minute. In a large cluster a cycle allocates half of what is live, and must end in time.
	updaterGrowth = growth{small: 20, large: 45, from: 512 << 20}
)

// at is the percentage for so much live data.
func (g growth) at(live uint64) int {
	if live > g.from {
		return g.large
	}
	return g.small
}

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
	growth    growth
	grow      func(percent int)

	percent        int    // of growth that is in force
	last, released uint64 // allocated bytes at the last look, and at the last release
}

// saveMemory makes the process save memory. If users set $GOGC or $GOMEMLIMIT, it leaves
// memory to Go and returns nil.
func saveMemory(growth growth) *afterWork {
	for _, own := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(own) != "" {
			return nil
		}
	}
	debug.SetGCPercent(growth.small)
	return &afterWork{
		clock: clock.RealClock{}, allocated: readMetric("/gc/heap/allocs:bytes"), release: debug.FreeOSMemory,
		live: readMetric("/gc/heap/live:bytes"), growth: growth, percent: growth.small, grow: func(percent int) { debug.SetGCPercent(percent) },
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
	if percent := a.growth.at(a.live()); percent != a.percent {
		a.grow(percent)
		a.percent = percent
	}
	now := a.allocated()
	if now-a.last < quietBelow && now-a.released >= releaseFrom {
		a.release()
		a.released = now
	}
	a.last = now
}

// readMetric reads a number of the Go runtime.
func readMetric(name string) func() uint64 {
	return func() uint64 {
		sample := []metrics.Sample{{Name: name}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
}
