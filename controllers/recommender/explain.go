package recommender

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// explain logs each target of a container that an update changed, together with the rule that set
// it, and keeps the decision.
func (r *Recommender) explain(u *Update) {
	w := u.Workload
	log := r.log(w)
	if (!log.Enabled() && !r.Decisions.Enabled()) || w.Chosen.Plan == nil {
		return
	}
	changes := TargetChanges(w.VPA.Status.Recommendation, u.Status.Recommendation)
	if len(changes) == 0 {
		return
	}
	result := r.recommend(w, r.view(w, r.Clock.Now()), true)
	changed := result.explaining(changes)
	for _, c := range changed {
		if c.Container != "" && c.To != answers.Unset {
			log.Info("recommendation changed", "container", c.Container, "resource", c.resource(),
				"from", cmp.Or(c.From, "none"), "to", c.To, "rule", c.step.Path(), "at", c.step.At)
		}
	}
	if !r.Decisions.Enabled() {
		return
	}
	decision := answers.Decision{
		Time: r.Clock.Now(), Action: "Recommend", Rules: w.Chosen.Plan.Digest(),
		Inputs: answers.Digest(w.VPA.Spec, w.VPA.Status.Recommendation, result.inputs()),
	}
	for _, c := range changed {
		decision.Rule = cmp.Or(decision.Rule, c.rule())
		text := c.String()
		if rule := c.rule(); rule != "" {
			text += " by " + rule
		}
		decision.Changes = append(decision.Changes, text)
	}
	r.Decisions.Add(types.NamespacedName{Namespace: w.VPA.Namespace, Name: w.VPA.Name}, decision)
}

// TargetChanges lists how targets change, by container, those of the pod as a whole first.
func TargetChanges(before, after *vpav1.RecommendedPodResources) (out []answers.Change) {
	was, is := targetsOf(before), targetsOf(after)
	names := slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		out = append(out, answers.ChangesOf(name, ofTarget, was[name], is[name])...)
	}
	return out
}

// ofTarget begins the fields of changed targets.
const ofTarget = "target"

// targetChange is a change of the target of one resource.
type targetChange struct {
	answers.Change
	step engine.Step // that set it; empty when it is withdrawn
}

func (c *targetChange) resource() string { return strings.TrimPrefix(c.Field, ofTarget+".") }

func (c *targetChange) rule() string {
	if c.step.Rule == "" {
		return ""
	}
	return c.step.Path()
}

// explaining adds the steps that set the targets to changes that were made from the result.
func (r *Result) explaining(changes []answers.Change) []targetChange {
	out := make([]targetChange, len(changes))
	for i, c := range changes {
		out[i].Change = c
		if c.To != answers.Unset {
			out[i].step, _ = r.last(c.Container, out[i].resource())
		}
	}
	return out
}

// last is the step that set the target of a container, empty for the pod as a whole: one of the
// pod's bounds, else one of its own.
func (r *Result) last(container, resource string) (step engine.Step, ok bool) {
	for _, e := range r.Explained {
		switch e.Container {
		case container:
			if step, ok = e.Trace.Last("target", "now."+resource); container == "" {
				return step, ok
			}
		case "":
			if of, shared := e.Trace.Last(container, ofTarget+"."+resource); shared {
				step, ok = of, true
			}
		}
	}
	return step, ok
}

// input is what the rules saw of the usage of a container.
type input struct {
	Container   string
	CPU, Memory map[string]int64 // by percentile
	History     facts.History
}

// inputs are those of a result with traces.
func (r *Result) inputs() (out []input) {
	for _, e := range r.Explained {
		if e.asked == nil {
			continue
		}
		out = append(out, input{Container: e.Container, CPU: byPercent(e.asked.cpu.amounts), Memory: byPercent(e.asked.memory.amounts), History: e.history})
	}
	return out
}

func byPercent(asked map[float64]int64) map[string]int64 {
	out := map[string]int64{}
	for p, amount := range asked {
		out[percent(p)] = amount
	}
	return out
}

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
