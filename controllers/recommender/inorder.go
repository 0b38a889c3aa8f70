package recommender

import (
	"fmt"
	"strings"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/engine"
)

// outOfOrder is a bound that a rule left beyond the target.
type outOfOrder struct{ bound, relation string }

// Error has no amounts: they change with each sample, and the status would with them.
func (e *outOfOrder) Error() string {
	return fmt.Sprintf("%s is %s the target, so it is set to the target", e.bound, e.relation)
}

// inOrder moves the bounds of a recommendation to its target where overlays left the lower bound above it or the upper bound below it,
// because the updater would change such a pod again and again. Without overlays they stay: as upstream, so that flags mean the same.
// The failures name the rules, which the trace of the recommendation knows.
func inOrder(bounds facts.Bounds, plan *engine.Plan, trace func() *engine.Trace) (failed []*engine.RuleError) {
	for _, resource := range facts.ScaledResources {
		name := string(resource)
		target, ok := bounds[0].Int(name)
		if !ok {
			continue
		}
		for i := 1; i <= 2; i++ {
			bound, ok := bounds[i].Int(name)
			relation := "above"
			if i == 2 {
				relation = "below"
			}
			if !ok || i == 1 && bound <= target || i == 2 && bound >= target {
				continue
			}
			overlays := plan.OverlaysAt(facts.ContainerEstimate, facts.ContainerRecommend, facts.PodRecommend)
			if len(overlays) == 0 {
				return nil
			}
			err := &outOfOrder{bound: facts.BoundNames[i] + "." + name, relation: relation}
			fault := trace().Blame("now."+name, err, facts.BoundNames[0], facts.BoundNames[i])
			if fault == nil {
				fault = &engine.RuleError{Path: "of overlay " + strings.Join(overlays, ", "), Err: err}
			}
			failed = append(failed, fault)
			bounds[i].SetInt(name, target)
		}
	}
	return failed
}
