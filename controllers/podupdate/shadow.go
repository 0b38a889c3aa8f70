package podupdate

import (
	"cmp"
	"fmt"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
)

// ShadowDifferences tells in words what rules that are not enforced would do otherwise with a pod that was assessed by those that
// are. group is what enforced was decided with. It is nil where nothing would differ.
func ShadowDifferences(shadow *engine.Plan, r Request, group facts.Group, assessed *Pod, enforced engine.Verdict) []string {
	tried, _ := Assess(shadow, r, nil)
	verdict := tried.Decide(shadow, group, nil)
	differs := policy.VerdictDifference(enforced, verdict)
	if order, other := assessed.Priority, tried.Priority; other.First != order.First || cmp.Compare(other.Then, order.Then) != 0 {
		differs = append(differs, fmt.Sprintf("order (%d, %g) → (%d, %g)", order.First, order.Then, other.First, other.Then))
	}
	if verdict.Do == facts.DoEvict || verdict.Do == facts.DoInPlace {
		differs = append(differs, facts.ChangeDifferences(assessed.Change, tried.Change)...)
	}
	return differs
}
