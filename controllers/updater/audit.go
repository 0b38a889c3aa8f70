package updater

import (
	"cmp"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// auditUpdate records what overlays that are not enforced would say about whether a VPA changes running pods.
func (u *Updater) auditUpdate(v *vpav1.VerticalPodAutoscaler, shadows []engine.Shadow, enforced engine.Verdict, log logr.Logger) {
	defer policy.UntilPanic(log)
	for _, shadow := range shadows {
		tried := shadow.Plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v), nil)
		u.Shadows.Record(v, shadow, "whether running pods are changed", policy.VerdictDifference(enforced, tried))
	}
}

// audit records what overlays that are not enforced would do with a pod instead.
func (u *Updater) audit(c *candidate, shadows []engine.Shadow, enforced engine.Verdict, log logr.Logger) {
	defer policy.UntilPanic(log)
	for _, shadow := range shadows {
		tried, _ := podupdate.Assess(shadow.Plan, c.request, nil)
		verdict := tried.Decide(shadow.Plan, *c.group, nil)
		differs := policy.VerdictDifference(enforced, verdict)
		if order, other := c.Priority, tried.Priority; other.First != order.First || cmp.Compare(other.Then, order.Then) != 0 {
			differs = append(differs, fmt.Sprintf("order (%d, %g) → (%d, %g)", order.First, order.Then, other.First, other.Then))
		}
		if verdict.Do == facts.DoEvict || verdict.Do == facts.DoInPlace {
			differs = append(differs, facts.ChangeDifferences(c.Change, tried.Change)...)
		}
		if len(differs) > 0 {
			differs[0] = "pod " + c.request.Pod.Name + ": " + differs[0]
		}
		u.Shadows.Record(c.VPA, shadow, "running pods", differs)
	}
}
