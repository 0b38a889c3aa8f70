package recommender

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// The methods in this file are for callers that drive a State without a cluster.

// Explanation is the trace of the recommendation for one container.
type Explanation struct {
	Container string // empty = the pod as a whole
	// In order: whether it is scaled at all, its memory aggregation, its last OOMs, and the changes
	// of its bounds.
	Steps []engine.Step
}

// Status is the status that a VPA should have at a time, whether it changed or not. A panic affects
// this VPA only, and its condition RulesApplied reports it.
func (s *State) Status(w *Workload, now time.Time) *vpav1.VerticalPodAutoscalerStatus {
	return s.evaluate(w, now)
}

// Explain traces the recommendation of a VPA, container by container in the order of their names,
// those that are not scaled included. It is empty without usage of the VPA's pods.
func (s *State) Explain(w *Workload) (out []Explanation) {
	defer func() {
		if p := recover(); p != nil {
			s.log(w).Error(fmt.Errorf("panic: %v", p), "panic while explaining a recommendation; please report this", "stack", string(debug.Stack()))
			out = nil
		}
	}()
	if w.Chosen.Plan == nil || w.selector() == nil {
		return nil
	}
	view := w.model.View(s.cluster.Settings())
	effective := func(container string) *effective { return s.effective(w, container) }
	for _, one := range ways(w.VPA, view, s.recommend(w, view, true).Explained, effective) {
		out = append(out, Explanation{Container: one.container, Steps: slices.Concat(one.selected, w.ooms[one.container].steps(), one.recommended)})
	}
	return out
}

// Forget drops the pods that are not in keep, and the usage that a running recommender would have
// dropped by now (UPSTREAM.md §2.19).
func (s *State) Forget(keep map[model.PodID]bool, now time.Time) {
	s.cluster.KeepPods(keep)
	s.cluster.CollectGarbage(now)
}
