package updater

import (
	"sync"
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

// backOffs remember of which workloads a PodDisruptionBudget refuses to evict pods, by the direct owner of the pods. How long they
// are left alone for that is a matter of the rules. The zero value is ready for use, and it is safe for concurrent use.
type backOffs struct {
	mu sync.Mutex
	of map[target.Key]backOff
}

type backOff struct {
	refusals int // in a row
	last     time.Time
}

// refused notes that a budget was against an eviction.
func (b *backOffs) refused(owner target.Key, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[target.Key]backOff{}
	}
	b.of[owner] = backOff{refusals: b.of[owner].refusals + 1, last: now}
}

// granted notes that a pod was evicted.
func (b *backOffs) granted(owner target.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, owner)
}

// tell completes what is known of a group.
func (b *backOffs) tell(owner target.Key, g *facts.Group, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.of[owner]; ok {
		g.Refusals, g.RefusedAge = known.refusals, now.Sub(known.last)
	}
}

// keep forgets owners that have no pods any more.
func (b *backOffs) keep(owners map[target.Key]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for owner := range b.of {
		if !owners[owner] {
			delete(b.of, owner)
		}
	}
}
