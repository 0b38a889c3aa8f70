package updater

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
)

// infeasible remembers what resizes asked for that was more than the node has, so that they are not
// tried again and again (AEP-8818). After a restart each is tried once more.
type infeasible struct {
	memory[types.UID, infeasibleRecord]
}

type infeasibleRecord struct {
	requests facts.Requests
	reported bool // that the pod is skipped for it
}

// report notes that the pod is skipped, and returns true the first time.
func (i *infeasible) report(uid types.UID) (first bool) {
	i.change(uid, func(r infeasibleRecord, known bool) (infeasibleRecord, bool) {
		first = known && !r.reported
		r.reported = true
		return r, known
	})
	return first
}

// tried is what the last such resize of a pod asked for; nil when there was none.
func (i *infeasible) tried(uid types.UID) facts.Requests {
	r, _ := i.recall(uid)
	return r.requests
}
