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
func (s *State) Explain(w *Workload, now time.Time) (out []Explanation) {
	defer func() {
		if p := recover(); p != nil {
			s.log(w).Error(fmt.Errorf("panic: %v", p), "panic while explaining a recommendation; please report this", "stack", string(debug.Stack()))
			out = nil
		}
	}()
	if w.Chosen.Plan == nil || w.selector() == nil {
		return nil
	}
	view := s.view(w, now)
	effective := func(container string) *effective { return s.effective(w, container) }
	for _, way := range ways(w.VPA, view, s.recommend(w, view, true).Explained, effective) {
		out = append(out, Explanation{Container: way.container, Steps: slices.Concat(way.selected, w.ooms[way.container].steps(), way.recommended)})
	}
	return out
}

// Forget drops the pods that are not in keep, and the usage that has expired by now, whether there are
// newer samples or not (UPSTREAM.md §2.19).
func (s *State) Forget(keep map[model.PodID]bool, now time.Time) {
	s.cluster.KeepPods(keep)
	s.cluster.CollectGarbage(now)
}

// Quiet stops the metrics about how well recommendations fit usage: a replay is no cluster to watch.
func (s *State) Quiet() { s.cluster.Observe = nil }

// Recommendation is what Status recommends, without conditions; changed is false while nothing that
// it is made from has changed since the last call, or it stays as the VPA has it. failed are rules
// that failed.
func (s *State) Recommendation(w *Workload, now time.Time) (out *vpav1.RecommendedPodResources, failed []*engine.RuleError, changed bool) {
	of := evaluation{version: w.VPA.ResourceVersion, rules: s.rules}
	if taken := w.model.TakeChanged(); !taken && w.done == of || w.frozen() != "" {
		return nil, nil, false
	}
	s.contained(w, "recommending", func() {
		view := model.View{}
		if w.selector() != nil {
			view = s.view(w, now)
		}
		result := s.recommend(w, view, false)
		out, failed = result.keep(w.VPA.Status.Recommendation), result.Failed
		w.noteTargets(out, now)
	})
	w.done = of
	return out, failed, out != nil
}

// KeepPods drops the pods that are not in keep.
func (s *State) KeepPods(keep map[model.PodID]bool) { s.cluster.KeepPods(keep) }
