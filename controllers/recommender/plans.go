package recommender

import (
	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
)

// effective is the policy of a container, and the plan in which it is a constant: rules about
// fields that the policy does not set are folded away.
type effective struct {
	number uint64                         // of this one among all of the state, from 1 on
	policy *vpav1.ContainerResourcePolicy // nil without one
	record *lang.Record
	of     *engine.Plan
	plan   *engine.Plan
}

// plans are those for containers without a policy, by the plan they were made of. All VPAs share
// them.
type plans map[*engine.Plan]*effective

// effective is the policy of a container of a VPA, cached until the policy or the rules change.
func (s *State) effective(w *Workload, container string) *effective {
	of := w.Chosen.Plan
	p := w.policyRules.For(w.VPA.Spec.ResourcePolicy, container)
	if p == nil {
		kept := s.plans[of]
		if kept == nil {
			kept = s.fold(of, nil, facts.Policy(nil))
			s.plans[of] = kept
		}
		return kept
	}
	kept := w.policies[p.ContainerName]
	if kept != nil && kept.policy == p && kept.of == of {
		return kept
	}
	record := facts.Policy(p)
	if kept != nil && kept.of == of && kept.record.Same(record) {
		kept.policy = p
		return kept
	}
	kept = s.fold(of, p, record)
	if w.policies == nil {
		w.policies = map[string]*effective{}
	}
	w.policies[p.ContainerName] = kept
	return kept
}

func (s *State) fold(of *engine.Plan, p *vpav1.ContainerResourcePolicy, record *lang.Record) *effective {
	s.folded++
	return &effective{number: s.folded, policy: p, record: record, of: of, plan: of.Specialize(facts.PolicyConstants(record)...)}
}
