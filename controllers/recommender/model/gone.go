package model

import (
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// gone is the restored history of workloads that are not there: their VPAs were deleted, perhaps with the CRD, and may be
// created again. Otherwise the first checkpoint of the new VPA would replace what is stored of months by what is known of minutes.
type gone map[WorkloadID]*Workload

// leaves keeps a workload that is deleted, if there is something to keep.
func (g gone) leaves(w *Workload) {
	if len(w.restored) > 0 {
		g[w.ID] = w
	}
}

// comesBack returns a workload that is created, with what was kept of it.
func (g gone) comesBack(id WorkloadID, order facts.Order, target string) *Workload {
	w := g[id]
	if w == nil {
		return &Workload{ID: id, order: order, target: target, changed: true}
	}
	delete(g, id)
	w.changed = true
	if w.target == "" { // only its checkpoint was known
		w.target = target
	}
	return w
}

// RestoreGone keeps the checkpoint of a container for a workload that is not there yet.
func (c *Cluster) RestoreGone(id WorkloadID, container string, from *vpav1.VerticalPodAutoscalerCheckpointStatus, now time.Time) error {
	w := c.gone[id]
	if w == nil {
		w = &Workload{ID: id}
	}
	if err := w.Restore(c.window, container, from, now); err != nil {
		return err
	}
	c.gone[id] = w
	return nil
}

// Gone are the workloads that are not there and of which something is kept.
func (c *Cluster) Gone() map[WorkloadID]bool {
	out := make(map[WorkloadID]bool, len(c.gone))
	for id := range c.gone {
		out[id] = true
	}
	return out
}

// ForgetGone drops what is kept of workloads that are not there. Call it when their checkpoints are deleted.
func (c *Cluster) ForgetGone(ids map[WorkloadID]bool) {
	for id := range ids {
		delete(c.gone, id)
	}
}
