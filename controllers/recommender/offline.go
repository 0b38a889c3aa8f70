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
	Container string // empty = the pod as a whole
	// From whether it is scaled at all, over how its memory is remembered and what its last OOMs counted as, to the last change of a
	// bound, in order.
	Steps []engine.Step
}

// maxExplained is how many steps about OOMs of a container are kept: those of the last ones.
const maxExplained = 10

// ExplainOOMs lets Explain tell from now on what OOMs came to count as.
func (s *State) ExplainOOMs() { s.explains = true }

// traceOOM is for an OOM that is to be explained; nil where none is.
func (s *State) traceOOM() *engine.Trace {
	if !s.explains {
		return nil
	}
	return &engine.Trace{}
}

// explainOOM keeps the steps of an OOM. Their item is its time.
func (w *Workload) explainOOM(o model.OOM, trace *engine.Trace) {
	if trace == nil {
		return
	}
	steps := w.ooms[o.Container]
	for _, step := range trace.Steps() {
		step.Item = o.At.UTC().Format(time.RFC3339)
		steps = append(steps, step)
	}
	if w.ooms == nil {
		w.ooms = map[string][]engine.Step{}
	}
	w.ooms[o.Container] = steps[max(0, len(steps)-maxExplained):]
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
			s.log(w).Error(fmt.Errorf("panic: %v", p), "panic while explaining a recommendation; please report this", "stack", string(debug.Stack()))
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
		facts.WindowFor(e.plan, usage.Container, e.record, trace)
		one := Explanation{Container: usage.Container, Steps: append(trace.Steps(), w.ooms[usage.Container]...)}
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
