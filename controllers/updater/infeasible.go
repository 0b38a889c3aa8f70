package updater

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
)

// infeasible remembers resizes that were found to be more than the node has, so that they are not tried again and again
// (AEP-8818). It is keyed by UID, and lost with the process: then each is tried once more. Its zero value is ready for use, and
// it is safe for concurrent use.
type infeasible struct {
	mu sync.Mutex
	of map[types.UID]infeasibleRecord
}

type infeasibleRecord struct {
	requests facts.Requests
	told     bool // that the pod is skipped for it
}

// recall returns what the last such resize of a pod asked for; nil when there was none.
func (i *infeasible) recall(uid types.UID) facts.Requests {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.of[uid].requests
}

// remember notes what a resize asked for.
func (i *infeasible) remember(uid types.UID, requests facts.Requests) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.of == nil {
		i.of = map[types.UID]infeasibleRecord{}
	}
	i.of[uid] = infeasibleRecord{requests: requests}
}

// tell reports whether it is to be told that a pod is skipped: once for each record.
func (i *infeasible) tell(uid types.UID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	r, ok := i.of[uid]
	if !ok || r.told {
		return false
	}
	r.told = true
	i.of[uid] = r
	return true
}

// forget drops the record of a pod: a resize of it was taken, or it was evicted.
func (i *infeasible) forget(uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.of, uid)
}

// keep drops the records of pods that are gone.
func (i *infeasible) keep(live map[types.UID]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for uid := range i.of {
		if !live[uid] {
			delete(i.of, uid)
		}
	}
}
