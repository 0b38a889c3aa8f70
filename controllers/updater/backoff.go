package updater

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

// backOffs remember what the API server refuses to do with pods. Which refusals count, and how long pods are left alone for them, is a
// matter of the rules. The zero value is ready for use, and it is safe for concurrent use.
type backOffs struct {
	mu                 sync.Mutex
	evictions, resizes map[refusedTo]backOff
}

// refusedTo is what a refusal is about: all pods of a direct owner, or one pod.
type refusedTo struct {
	owner target.Key
	pod   types.UID
}

type backOff struct {
	facts.Refusals           // but for their age
	last           time.Time // the cycle of the last one
}

// evictionRefused notes that the API server refused to evict a pod.
func (b *backOffs) evictionRefused(to refusedTo, why facts.Refusal, message string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evictions = refused(b.evictions, to, why, message, now)
}

// resizeRefused notes that the API server refused to resize a pod, and that nothing came of it.
func (b *backOffs) resizeRefused(to refusedTo, why facts.Refusal, message string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resizes = refused(b.resizes, to, why, message, now)
}

func refused(of map[refusedTo]backOff, to refusedTo, why facts.Refusal, message string, now time.Time) map[refusedTo]backOff {
	if of == nil {
		of = map[refusedTo]backOff{}
	}
	of[to] = backOff{Refusals: facts.Refusals{Times: of[to].Times + 1, Last: why, Message: message}, last: now}
	return of
}

// evicted notes that a pod was evicted.
func (b *backOffs) evicted(owner target.Key, pod types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.evictions, refusedTo{owner: owner})
	delete(b.evictions, refusedTo{pod: pod})
}

// resized notes that a resize was taken.
func (b *backOffs) resized(owner target.Key, pod types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.resizes, refusedTo{owner: owner})
	delete(b.resizes, refusedTo{pod: pod})
}

// of returns what was refused to all pods of an owner, or to a pod.
func (b *backOffs) of(to refusedTo, now time.Time) (evictions, resizes facts.Refusals) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.evictions[to].at(now), b.resizes[to].at(now)
}

func (b backOff) at(now time.Time) facts.Refusals {
	out := b.Refusals
	if out.Times > 0 {
		out.Age = now.Sub(b.last)
	}
	return out
}

// keep forgets pods that are gone, and owners that have no pods any more.
func (b *backOffs) keep(owners map[target.Key]bool, pods map[types.UID]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range []map[refusedTo]backOff{b.evictions, b.resizes} {
		for to := range of {
			if !owners[to.owner] && !pods[to.pod] {
				delete(of, to)
			}
		}
	}
}
