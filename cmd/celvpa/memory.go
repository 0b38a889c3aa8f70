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

// By how many percent the heap may grow beyond live data before a garbage collection.
const (
	// usualGrowth takes, under many reviews, up to a seventh more CPU than Go's default of 100, and 16 MiB less.
	usualGrowth = 50
	// updaterGrowth is for a process that only runs the updater: in a large cluster each cycle allocates three times what is live,
	// and must end in time.
	updaterGrowth = 100
)

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

	last, released uint64 // allocated bytes at the last look, and at the last release
}

// saveMemory makes the process save memory. If users set $GOGC or $GOMEMLIMIT, it leaves
// memory to Go and returns nil.
func saveMemory(growth int) *afterWork {
	for _, own := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(own) != "" {
			return nil
		}
	}
	debug.SetGCPercent(growth)
	return &afterWork{clock: clock.RealClock{}, allocated: allocatedBytes, release: debug.FreeOSMemory}
}

// NeedLeaderElection is false: every replica saves memory.
func (a *afterWork) NeedLeaderElection() bool { return false }

// Start implements the manager's Runnable.
func (a *afterWork) Start(ctx context.Context) error {
	cycle.Every(ctx, a.clock, lookInterval, a.look)
	return nil
}

func (a *afterWork) look() {
	now := a.allocated()
	if now-a.last < quietBelow && now-a.released >= releaseFrom {
		a.release()
		a.released = now
	}
	a.last = now
}

func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
