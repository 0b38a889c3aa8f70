package recommender

import (
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// way is how the rules came from the usage of a container to its recommendation.
type way struct {
	container   string        // empty = the pod as a whole
	selected    []engine.Step // whether it is scaled at all, and its memory aggregation
	recommended []engine.Step
}

// ways are those of all containers of a view, in the order of their names, and of the pod last.
// explained is what recommend traced for the view.
func ways(v *vpav1.VerticalPodAutoscaler, view model.View, explained []Explained, effective func(container string) *effective) (out []way) {
	for _, usage := range view.Containers {
		e, trace := effective(usage.Container), &engine.Trace{}
		e.plan.Decide(facts.ContainerSelect, facts.SelectFacts(usage.Container, e.record, seen(v, view, usage)), trace)
		facts.WindowFor(e.plan, usage.Container, e.record, trace)
		one := way{container: usage.Container, selected: trace.Steps()}
		if len(explained) > 0 && explained[0].Container == usage.Container { // both are in the order of their names
			one.recommended = explained[0].Trace.Steps()
			explained = explained[1:]
		}
		out = append(out, one)
	}
	for _, rest := range explained {
		out = append(out, way{container: rest.Container, recommended: rest.Trace.Steps()})
	}
	return out
}
