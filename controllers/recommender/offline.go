package recommender

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// What follows is for those who drive a State without a cluster.

// Explanation is how the recommendation for one container came about.
type Explanation struct {
	Container string        // empty = the pod as a whole
	Steps     []engine.Step // from whether it is scaled at all to the last change of a bound, in order
}

// Status is what the status of a VPA should be at a time, whether it changed or not. A panic stays with this VPA and is told
// in its condition RulesApplied.
func (s *State) Status(w *Workload, now time.Time) *vpav1.VerticalPodAutoscalerStatus {
	return s.evaluate(w, now)
}

// Explain tells how the recommendation of a VPA comes about, container by container in the order of their names, those that
// are not scaled included. It is empty where nothing is known of the VPA's pods.
func (s *State) Explain(w *Workload) (out []Explanation) {
	defer func() {
		if p := recover(); p != nil {
			s.log(w).Error(fmt.Errorf("panic: %v", p), "the recommendation cannot be explained; please report this", "stack", string(debug.Stack()))
			out = nil
		}
	}()
	if w.Chosen.Plan == nil || w.selector() == nil {
		return nil
	}
	view := w.model.View(s.cluster.Settings())
	explained := s.recommend(w, view, true).Explained
	for _, usage := range view.Containers {
		e, trace := s.effective(w, usage.Container), &engine.Trace{}
		e.plan.Decide(facts.ContainerSelect, facts.SelectFacts(usage.Container, e.record, seen(w.VPA, view, usage)), trace)
		one := Explanation{Container: usage.Container, Steps: trace.Steps()}
		if len(explained) > 0 && explained[0].Container == usage.Container { // both are in the order of their names
			one.Steps = append(one.Steps, explained[0].Trace.Steps()...)
			explained = explained[1:]
		}
		out = append(out, one)
	}
	for _, rest := range explained {
		out = append(out, Explanation{Container: rest.Container, Steps: rest.Trace.Steps()})
	}
	return out
}

// Forget lets go of the pods that keep does not hold, and of usage that ended so long before now that a recommender at work
// would have dropped it (UPSTREAM.md §2.19).
func (s *State) Forget(keep map[model.PodID]bool, now time.Time) {
	s.cluster.KeepPods(keep)
	s.cluster.CollectGarbage(now)
}
