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

// The methods in this file are for callers that drive a State without a cluster.

// Explanation is the trace of the recommendation for one container.
type Explanation struct {
	Container string // empty = the pod as a whole
	// In order: whether it is scaled at all, its memory aggregation, its last OOMs, and the changes
	// of its bounds.
	Steps []engine.Step
}

// maxExplained is how many steps about the last OOMs of a container are kept.
const maxExplained = 10

// ExplainOOMs makes Explain include OOMs from now on.
func (s *State) ExplainOOMs() { s.explains = true }

// traceOOM is the trace of an OOM; nil unless ExplainOOMs was called.
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

// Forget drops the pods that are not in keep, and the usage that a running recommender would have
// dropped by now (UPSTREAM.md §2.19).
func (s *State) Forget(keep map[model.PodID]bool, now time.Time) {
	s.cluster.KeepPods(keep)
	s.cluster.CollectGarbage(now)
}
