package podupdate

import (
	"cmp"
	"fmt"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
)

// ShadowDifferences describes what an audited plan would do differently with a pod that the
// enforced plan has assessed: the decision, the order, and the resources. ask is the question that
// enforced answers. It is nil without differences.
func ShadowDifferences(shadow *engine.Plan, r Request, assessed *Pod, enforced engine.Verdict, ask func(*Pod, *engine.Plan) engine.Verdict) []string {
	tried, _ := Assess(shadow, r, nil)
	verdict := ask(tried, shadow)
	differs := policy.VerdictDifference(enforced, verdict)
	if order, other := assessed.Priority, tried.Priority; other.First != order.First || cmp.Compare(other.Then, order.Then) != 0 {
		differs = append(differs, fmt.Sprintf("order (%d, %g) → (%d, %g)", order.First, order.Then, other.First, other.Then))
	}
	if Acts(verdict.Do) {
		differs = append(differs, facts.ChangeDifferences(assessed.Change, tried.Change)...)
	}
	return differs
}
