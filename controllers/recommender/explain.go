package recommender

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/decisions"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/engine"
)

// explain logs each target of a container that an update changed, together with the rule that set
// it, and keeps the decision.
func (r *Recommender) explain(u *Update) {
	w := u.Workload
	log, before := r.log(w), Targets(w.VPA.Status.Recommendation)
	if (!log.Enabled() && !r.Decisions.Enabled()) || w.Chosen.Plan == nil || equality.Semantic.DeepEqual(before, Targets(u.Status.Recommendation)) {
		return
	}
	result := r.recommend(w, w.model.View(r.cluster.Settings()), true)
	changed := targetChanges(before, Targets(u.Status.Recommendation), &result)
	for _, c := range changed {
		if c.Container != "" && c.To != unset {
			log.Info("recommendation changed", "container", c.Container, "resource", c.Field,
				"from", cmp.Or(c.From, "none"), "to", c.To, "rule", c.step.Path(), "at", c.step.At)
		}
	}
	if !r.Decisions.Enabled() || len(changed) == 0 {
		return
	}
	decision := answers.Decision{
		Time: r.Clock.Now(), Action: "Recommend", Rules: w.Chosen.Plan.Digest(),
		Inputs: decisions.Digest(w.VPA.Spec, w.VPA.Status.Recommendation, result.inputs()),
	}
	for _, c := range changed {
		decision.Rule = cmp.Or(decision.Rule, c.rule())
		c.Field = "target." + c.Field
		text := c.String()
		if rule := c.rule(); rule != "" {
			text += " by " + rule
		}
		decision.Changes = append(decision.Changes, text)
	}
	r.Decisions.Add(types.NamespacedName{Namespace: w.VPA.Namespace, Name: w.VPA.Name}, decision)
}

// unset is what a target changes to that is withdrawn.
const unset = "unset"

// targetChange is a change of the target of one resource, which is its field.
type targetChange struct {
	answers.Change
	step engine.Step // that set it; empty when it is withdrawn
}

func (c *targetChange) rule() string {
	if c.step.Rule == "" {
		return ""
	}
	return c.step.Path()
}

// targetChanges lists how targets changed, by container, that of the pod as a whole first. result is what
// they were made from.
func targetChanges(from, to map[string]corev1.ResourceList, result *Result) (out []targetChange) {
	names := slices.Concat(slices.Collect(maps.Keys(from)), slices.Collect(maps.Keys(to)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		for _, resource := range facts.ScaledResources {
			old, had := from[name][resource]
			now, has := to[name][resource]
			if had == has && old.Cmp(now) == 0 {
				continue
			}
			c := targetChange{Change: answers.Change{Container: name, Field: string(resource), To: unset}}
			if had {
				c.From = old.String()
			}
			if has {
				c.To = now.String()
				c.step, _ = result.last(name, resource)
			}
			out = append(out, c)
		}
	}
	return out
}

// last is the step that set the target of a container, empty for the pod as a whole: one of the
// pod's bounds, else one of its own.
func (r *Result) last(container string, resource corev1.ResourceName) (step engine.Step, ok bool) {
	for _, e := range r.Explained {
		switch e.Container {
		case container:
			if step, ok = e.Trace.Last("target", "now."+string(resource)); container == "" {
				return step, ok
			}
		case "":
			if of, shared := e.Trace.Last(container, "target."+string(resource)); shared {
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
		out = append(out, input{Container: e.Container, CPU: byPercent(e.asked.cpu), Memory: byPercent(e.asked.memory), History: e.history})
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
