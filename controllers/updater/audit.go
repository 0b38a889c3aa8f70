package updater

import (
	"github.com/go-logr/logr"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// auditUpdate records whether audited overlays would decide differently that a VPA changes running
// pods.
func (u *Updater) auditUpdate(v *vpav1.VerticalPodAutoscaler, shadows []compile.Shadow, enforced engine.Verdict, log logr.Logger) {
	defer policy.UntilPanic(log)
	for _, shadow := range shadows {
		tried := shadow.Plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v), nil)
		u.Shadows.Record(v, shadow, "whether running pods are changed", policy.VerdictDifference(enforced, tried))
	}
}

// audit records what audited overlays would do with a pod instead.
func (u *Updater) audit(c *candidate, shadows []compile.Shadow, enforced engine.Verdict) {
	if len(shadows) == 0 {
		return
	}
	defer policy.UntilPanic(c.log())
	ask := func(p *podupdate.Pod, plan *engine.Plan) engine.Verdict {
		p.Resize = c.Resize // the request does not know of resizes just sent
		return p.Decide(plan, *c.group, nil)
	}
	for _, shadow := range shadows {
		differs := podupdate.ShadowDifferences(shadow.Plan, c.request, c.Pod, enforced, ask)
		if len(differs) > 0 {
			differs[0] = "pod " + c.request.Pod.Name + ": " + differs[0]
		}
		u.Shadows.Record(c.VPA, shadow, "running pods", differs)
	}
}
