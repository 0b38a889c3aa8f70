package recommender

import (
	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// folded keeps, for each container policy, the plan in which it is a constant: rules for what a policy does not set are
// gone from it. What is kept is only used while the policy is what it was made for.
type folded struct {
	plans map[folder]*foldedPlan
}

// folder names a container policy under a plan. All VPAs without a policy share one: its names are empty.
type folder struct {
	of                     *engine.Plan
	namespace, vpa, policy string
}

type foldedPlan struct {
	policy *engine.Record
	plan   *engine.Plan
	used   bool // since the last sweep
}

func newFolded() *folded { return &folded{plans: map[folder]*foldedPlan{}} }

// For gives the plan for a container policy of a VPA, nil for none, bound as record.
func (c *folded) For(v *vpav1.VerticalPodAutoscaler, of *engine.Plan, p *vpav1.ContainerResourcePolicy, record *engine.Record) *engine.Plan {
	key := folder{of: of}
	if p != nil {
		key = folder{of: of, namespace: v.Namespace, vpa: v.Name, policy: p.ContainerName}
	}
	kept := c.plans[key]
	if kept == nil || !kept.policy.Same(record) {
		kept = &foldedPlan{policy: record, plan: of.Specialize(facts.PolicyConstants(record)...)}
		c.plans[key] = kept
	}
	kept.used = true
	return kept.plan
}

// Sweep drops what nobody asked for since the last sweep: VPAs that are gone, and rules that were replaced.
func (c *folded) Sweep() {
	for key, kept := range c.plans {
		if !kept.used {
			delete(c.plans, key)
		}
		kept.used = false
	}
}
