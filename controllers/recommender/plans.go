package recommender

import (
	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
)

// effective is the policy of a container, and the plan that runs for it.
type effective struct {
	number uint64                         // of this one among all of the state, from 1 on
	policy *vpav1.ContainerResourcePolicy // nil without one
	record *lang.Record
	plan   *engine.Plan // that of the VPA
}

// plans are those for containers without a policy, by plan. All VPAs share them.
type plans map[*engine.Plan]*effective

// effective is the policy of a container of a VPA, cached until the policy or the rules change.
func (s *State) effective(w *Workload, container string) *effective {
	plan := w.Chosen.Plan
	p := w.policyRules.For(w.VPA.Spec.ResourcePolicy, container)
	if p == nil {
		kept := s.plans[plan]
		if kept == nil {
			kept = s.numbered(effective{record: facts.Policy(nil), plan: plan})
			s.plans[plan] = kept
		}
		return kept
	}
	kept := w.policies[p.ContainerName]
	if kept != nil && kept.policy == p && kept.plan == plan {
		return kept
	}
	record := facts.Policy(p)
	if kept != nil && kept.plan == plan && kept.record.Same(record) {
		kept.policy = p
		return kept
	}
	kept = s.numbered(effective{policy: p, record: record, plan: plan})
	if w.policies == nil {
		w.policies = map[string]*effective{}
	}
	w.policies[p.ContainerName] = kept
	return kept
}

func (s *State) numbered(e effective) *effective {
	s.effectives++
	e.number = s.effectives
	return &e
}
