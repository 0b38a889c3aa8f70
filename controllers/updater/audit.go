package updater

import (
	"github.com/go-logr/logr"

	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// auditUpdate records whether audited overlays would decide differently that a VPA changes running
// pods.
func (u *Updater) auditUpdate(v *matcher.VPA, log logr.Logger) {
	defer policy.UntilPanic(log)
	for _, shadow := range v.Rules.Shadows {
		u.Shadows.Record(v.Object, shadow, "whether running pods are changed", v.Differs(matcher.Update, shadow))
	}
}

// audit records what audited overlays would do with a pod instead.
func (u *Updater) audit(c *podupdate.Candidate, shadows []compile.Shadow, log logr.Logger) {
	if len(shadows) == 0 {
		return
	}
	defer policy.UntilPanic(podLog(log, c))
	ask := func(p *podupdate.Pod, plan *engine.Plan) engine.Verdict {
		p.Resize = c.Resize // the request does not know of resizes just sent
		return p.Decide(plan, *c.Group, nil)
	}
	for _, shadow := range shadows {
		differs := podupdate.ShadowDifferences(shadow.Plan, c.Request, c.Pod, c.Verdict, ask)
		if len(differs) > 0 {
			differs[0] = "pod " + c.Request.Pod.Name + ": " + differs[0]
		}
		u.Shadows.Record(c.VPA, shadow, "running pods", differs)
	}
}
