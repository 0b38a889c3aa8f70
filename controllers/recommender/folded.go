package recommender

import (
	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// folded keeps, for each container policy, the plan in which it is a constant: rules for what a policy does not set are
// gone from it. What is kept is only used while plan and policy are what it was made for.
type folded struct {
	plans map[folder]foldedPlan
}

// folder names a container policy. It is empty for "no policy", which all VPAs share.
type folder struct {
	namespace, vpa, policy string
}

type foldedPlan struct {
	of     *engine.Plan
	policy *engine.Record
	plan   *engine.Plan
}

func newFolded() *folded { return &folded{plans: map[folder]foldedPlan{}} }

// For gives the plan for a container policy of a VPA, nil for none, bound as record.
func (c *folded) For(v *vpav1.VerticalPodAutoscaler, of *engine.Plan, p *vpav1.ContainerResourcePolicy, record *engine.Record) *engine.Plan {
	var key folder
	if p != nil {
		key = folder{namespace: v.Namespace, vpa: v.Name, policy: p.ContainerName}
	}
	kept, ok := c.plans[key]
	if !ok || kept.of != of || !kept.policy.Same(record) {
		kept = foldedPlan{of: of, policy: record, plan: of.Specialize(facts.PolicyConstants(record)...)}
		c.plans[key] = kept
	}
	return kept.plan
}

// Keep drops what belongs to none of the VPAs.
func (c *folded) Keep(vpas []*vpav1.VerticalPodAutoscaler) {
	exists := map[folder]bool{{}: true}
	for _, v := range vpas {
		exists[folder{namespace: v.Namespace, vpa: v.Name}] = true
	}
	for key := range c.plans {
		if !exists[folder{namespace: key.namespace, vpa: key.vpa}] {
			delete(c.plans, key)
		}
	}
}
