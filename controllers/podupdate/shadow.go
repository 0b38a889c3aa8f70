package podupdate

import (
	"cmp"
	"fmt"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
)

// ShadowDifferences tells in words what a plan that is not enforced would do otherwise with a pod that was assessed by the one
// that is: what it decides, when the pod's turn is, and what the pod would be given. ask is the question to which enforced is the
// answer. It is nil where nothing would differ.
func ShadowDifferences(shadow *engine.Plan, r Request, assessed *Pod, enforced engine.Verdict, ask func(*Pod, *engine.Plan) engine.Verdict) []string {
	tried, _ := Assess(shadow, r, nil)
	verdict := ask(tried, shadow)
	differs := policy.VerdictDifference(enforced, verdict)
	if order, other := assessed.Priority, tried.Priority; other.First != order.First || cmp.Compare(other.Then, order.Then) != 0 {
		differs = append(differs, fmt.Sprintf("order (%d, %g) → (%d, %g)", order.First, order.Then, other.First, other.Then))
	}
	if verdict.Do == facts.DoEvict || verdict.Do == facts.DoInPlace || verdict.Do == facts.DoInPlaceCPU {
		differs = append(differs, facts.ChangeDifferences(assessed.Change, tried.Change)...)
	}
	return differs
}
