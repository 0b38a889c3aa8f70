package remembered

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
)

// Infeasible remembers what resizes asked for that was more than the node has, so that they are not
// tried again and again (AEP-8818). After a restart each is tried once more.
type Infeasible struct {
	Memory[types.UID, infeasibleRecord]
}

type infeasibleRecord struct {
	requests facts.Requests
	reported bool // that the pod is skipped for it
}

// Note notes what an infeasible resize asked for.
func (i *Infeasible) Note(uid types.UID, requests facts.Requests) {
	i.Remember(uid, infeasibleRecord{requests: requests})
}

// Report notes that the pod is skipped, and returns true the first time.
func (i *Infeasible) Report(uid types.UID) (first bool) {
	i.change(uid, func(r infeasibleRecord, known bool) (infeasibleRecord, bool) {
		first = known && !r.reported
		r.reported = true
		return r, known
	})
	return first
}

// Tried is what the last such resize of a pod asked for; nil when there was none.
func (i *Infeasible) Tried(uid types.UID) facts.Requests {
	r, _ := i.Recall(uid)
	return r.requests
}
