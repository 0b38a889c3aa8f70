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
	of     *engine.Plan // that of the VPA
	// plan is folded for containers without a policy: rules about the fields of one are left out. All
	// VPAs share it. With a policy it is that of the VPA. Folded for one policy it would take 54 KB and
	// 0.3 ms to make, for 0.4 µs in each cycle.
	plan *engine.Plan
}

// plans are those for containers without a policy, by the plan they were made of.
type plans map[*engine.Plan]*effective

// effective is the policy of a container of a VPA, cached until the policy or the rules change.
func (s *State) effective(w *Workload, container string) *effective {
	of := w.Chosen.Plan
	p := w.policyRules.For(w.VPA.Spec.ResourcePolicy, container)
	if p == nil {
		kept := s.plans[of]
		if kept == nil {
			record := facts.Policy(nil)
			kept = s.numbered(effective{record: record, of: of, plan: of.Specialize(facts.PolicyConstants(record)...)})
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
	kept = s.numbered(effective{policy: p, record: record, of: of, plan: of})
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
