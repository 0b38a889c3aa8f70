package facts

import (
	"runtime"
	"sync"
	"weak"

	"github.com/google/cel-go/common/types"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// ContainerPolicy is the point that selects a container's policy; the others are its outcomes.
const (
	ContainerPolicy = "container.policy"

	DoUse     = "Use"
	DoDefault = "Default"
)

var containerPolicy = &registry.Point{
	Name: ContainerPolicy, Kind: registry.DecisionPoint,
	Doc: "Which entry of spec.resourcePolicy.containerPolicies is a container's policy; run by all components for each entry in order, " +
		"and remembered for as long as the rules stay: facts are how the entry names the container, no more.",
	Vars: []registry.Var{
		{Name: "named", Type: lang.Bool, Doc: "the entry has the container's name"},
		{Name: "wildcard", Type: lang.Bool, Doc: "the entry is the wildcard (*)"},
	},
	Outcomes: []registry.Outcome{
		{Name: DoUse, Doc: "it is the container's policy, and no further entry is asked"},
		{Name: DoDefault, Doc: "it is the container's policy unless a later entry is"},
		{Name: DoIgnore, Doc: "it is not the container's policy"},
	},
	FailSafe: DoIgnore,
}

// PolicyRules are the outcomes for entries naming the container, the wildcard, and other entries. By
// the zero value no container has a policy.
type PolicyRules struct{ named, wildcard, other string }

// policyRulesOf caches them per plan.
var policyRulesOf sync.Map // weak.Pointer[engine.Plan] → PolicyRules

// PolicyRulesOf runs container.policy, once per plan.
func PolicyRulesOf(plan *engine.Plan) PolicyRules {
	key := weak.Make(plan)
	if known, ok := policyRulesOf.Load(key); ok {
		return known.(PolicyRules)
	}
	decide := func(named, wildcard bool) string {
		f := containerPolicy.NewFacts().Set("named", types.Bool(named)).Set("wildcard", types.Bool(wildcard))
		return plan.Decide(ContainerPolicy, f, nil).Do
	}
	out := PolicyRules{named: decide(true, false), wildcard: decide(false, true), other: decide(false, false)}
	if _, twice := policyRulesOf.LoadOrStore(key, out); !twice {
		runtime.AddCleanup(plan, func(key weak.Pointer[engine.Plan]) { policyRulesOf.Delete(key) }, key)
	}
	return out
}

// For returns a container's policy, or nil. Policies are never merged (UPSTREAM.md §1.2).
func (r PolicyRules) For(policy *vpav1.PodResourcePolicy, container string) (out *vpav1.ContainerResourcePolicy) {
	if policy == nil {
		return nil
	}
	for i := range policy.ContainerPolicies {
		p := &policy.ContainerPolicies[i]
		do := r.other
		switch p.ContainerName {
		case container:
			do = r.named
		case vpav1.DefaultContainerResourcePolicy:
			do = r.wildcard
		}
		switch do {
		case DoUse:
			return p
		case DoDefault:
			out = p
		}
	}
	return out
}
