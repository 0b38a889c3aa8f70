package facts

import (
	"math"
	"math/big"
	"runtime"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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

// What a policy lets a VPA set.
var (
	policyMode       = lang.TextIf("mode", "Auto or Off", func(p *vpav1.ContainerResourcePolicy) (vpav1.ContainerScalingMode, bool) { return given(p.Mode) })
	policyMinAllowed = lang.RecordFrom("minAllowed", resourcesSchema.Schema, "", func(p *vpav1.ContainerResourcePolicy) *lang.Record { return resourcesIf(p.MinAllowed) })
	policyMaxAllowed = lang.RecordFrom("maxAllowed", resourcesSchema.Schema, "", func(p *vpav1.ContainerResourcePolicy) *lang.Record { return resourcesIf(p.MaxAllowed) })
	policyControlled = lang.TextsFrom("controlledResources", "", func(p *vpav1.ContainerResourcePolicy) []string { return resourceNames(p.ControlledResources) })
)

// scopeSchema is the part of a policy that says what a VPA may set.
var scopeSchema = lang.Bind("PolicyScope", policyMode, policyMinAllowed, policyMaxAllowed, policyControlled)

// scope binds that part; nil binds one with nothing set.
func scope(p *vpav1.ContainerResourcePolicy) *lang.Record {
	if p == nil {
		return scopeSchema.Empty()
	}
	return scopeSchema.Of(p)
}

var policySchema = lang.Bind("Policy", policyMode, policyMinAllowed, policyMaxAllowed, policyControlled,
	lang.TextIf("controlledValues", "RequestsAndLimits or RequestsOnly",
		func(p *vpav1.ContainerResourcePolicy) (vpav1.ContainerControlledValues, bool) {
			return given(p.ControlledValues)
		}),

	lang.DoubleIf("oomBumpUpRatio", "as written, even with gate PerVPAConfig off; so are the three below",
		func(p *vpav1.ContainerResourcePolicy) (float64, bool) {
			ratio, ok := given(p.OOMBumpUpRatio)
			return float64(held(ratio, resource.Milli)) / 1000, ok
		}),
	lang.IntIf("oomMinBumpUp", lang.IntOf(Memory), "bytes", func(p *vpav1.ContainerResourcePolicy) (int64, bool) {
		least, ok := given(p.OOMMinBumpUp)
		return wholeBytes(least), ok
	}),
	lang.IntIf("memoryAggregationInterval", lang.IntOf(Duration), "in either spelling", aggregationInterval),
	lang.IntIf("memoryAggregationIntervalCount", lang.Int, "",
		func(p *vpav1.ContainerResourcePolicy) (int64, bool) { return given(p.MemoryAggregationIntervalCount) }),
	lang.IntIf("memoryPerCPU", lang.IntOf(Memory), "bytes per core, as written, even with gate MemoryPerCPURatio off",
		func(p *vpav1.ContainerResourcePolicy) (int64, bool) {
			perCPU, ok := given(p.MemoryPerCPU)
			return Bytes(perCPU), ok
		}),
	lang.RecordFrom("requestToLimitRatio", policyRatiosSchema.Schema,
		"how limits follow requests, in either spelling, even with gate RequestToLimitRatio off", policyRatios),
	lang.RecordFrom("startupBoost", boostSchema.Schema, "the container's own, even with gate CPUStartupBoost off",
		func(p *vpav1.ContainerResourcePolicy) *lang.Record {
			if p.StartupBoost == nil {
				return nil
			}
			return boostSchema.Of(p.StartupBoost) // an empty one still replaces the VPA's
		}))

// Policy binds a container policy; nil binds one with nothing set.
func Policy(p *vpav1.ContainerResourcePolicy) *lang.Record {
	if p == nil {
		return policySchema.Empty()
	}
	return policySchema.Of(p)
}

// aggregationInterval reads either spelling; validation requires that they agree.
func aggregationInterval(p *vpav1.ContainerResourcePolicy) (d time.Duration, ok bool) {
	switch {
	case p.MemoryAggregationIntervalSeconds != nil:
		return time.Duration(*p.MemoryAggregationIntervalSeconds) * time.Second, true
	case p.MemoryAggregationInterval != nil:
		return p.MemoryAggregationInterval.Duration, true
	}
	return 0, false
}

func resourceNames(list *[]corev1.ResourceName) []string {
	if list == nil {
		return nil
	}
	out := make([]string, 0, len(*list))
	for _, n := range *list {
		out = append(out, string(n))
	}
	return out
}

var podPolicySchema = lang.Bind("PodPolicy",
	lang.RecordFrom("minAllowed", resourcesSchema.Schema, "", func(p *vpav1.PodPolicies) *lang.Record { return resourcesIf(p.MinAllowed) }),
	lang.RecordFrom("maxAllowed", resourcesSchema.Schema, "", func(p *vpav1.PodPolicies) *lang.Record { return resourcesIf(p.MaxAllowed) }),
	lang.TextsFrom("controlledResources", "", func(p *vpav1.PodPolicies) []string { return resourceNames(p.ControlledResources) }),
	lang.TextIf("controlledValues", "RequestsAndLimits or RequestsOnly",
		func(p *vpav1.PodPolicies) (vpav1.ContainerControlledValues, bool) { return given(p.ControlledValues) }))

// PodPolicy binds podPolicies; nil binds one with nothing set.
func PodPolicy(p *vpav1.PodResourcePolicy) *lang.Record {
	if p == nil || p.PodPolicies == nil {
		return podPolicySchema.Empty()
	}
	return podPolicySchema.Of(p.PodPolicies)
}

var (
	policyRatiosSchema = lang.Bind("PolicyRatios",
		lang.RecordFrom("cpu", policyCPURatioSchema.Schema, "", func(r *vpav1.RequestToLimitRatio) *lang.Record { return policyRatio(policyCPURatioSchema, r.CPU) }),
		lang.RecordFrom("memory", policyMemoryRatioSchema.Schema, "", func(r *vpav1.RequestToLimitRatio) *lang.Record {
			return policyRatio(policyMemoryRatioSchema, r.Memory)
		}))

	policyCPURatioSchema    = policyRatioSchema("PolicyCPURatio", CPU, MilliCPU)
	policyMemoryRatioSchema = policyRatioSchema("PolicyMemoryRatio", Memory, Bytes)

	fractionSchema = lang.Bind("Fraction",
		lang.IntFrom("limit", lang.Int, "", func(f fraction) int64 { return f.limit }),
		lang.IntFrom("request", lang.Int, "a factor of 1.2 is a limit of 12 for a request of 10", func(f fraction) int64 { return f.request }))
)

func policyRatioSchema(name, unit string, amount func(resource.Quantity) int64) *lang.Binding[*vpav1.ResourceRatio] {
	return lang.Bind(name,
		lang.TextFrom("type", "Factor or Quantity", func(r *vpav1.ResourceRatio) vpav1.ScaleType { return r.Type }),
		lang.RecordFrom("factor", fractionSchema.Schema, "exactly as written", func(r *vpav1.ResourceRatio) *lang.Record {
			if r.Factor == nil {
				return nil
			}
			f, ok := fractionOf(string(*r.Factor))
			if !ok {
				return nil
			}
			return fractionSchema.Of(f)
		}),
		lang.IntIf("quantity", lang.IntOf(unit), "", func(r *vpav1.ResourceRatio) (int64, bool) {
			q, ok := given(r.Quantity)
			return amount(q), ok
		}))
}

// policyRatios also reads the AEP's spelling: stored objects may predate the webhook's renaming.
func policyRatios(p *vpav1.ContainerResourcePolicy) *lang.Record {
	ratios := p.RequestToLimitRatio
	if ratios == nil {
		ratios = p.RequestToLimitRatioAEP
	}
	if ratios == nil {
		return nil
	}
	return policyRatiosSchema.Of(ratios)
}

func policyRatio(schema *lang.Binding[*vpav1.ResourceRatio], r *vpav1.ResourceRatio) *lang.Record {
	if r == nil {
		return nil
	}
	return schema.Of(r)
}

// fraction is a factor as limit ÷ request: 1.2 is 12 ÷ 10.
type fraction struct{ limit, request int64 }

// fractionDigits is what 63 bits hold of a decimal; further digits are truncated.
const fractionDigits = 18

// fractionOf reads a JSON number ≥ 0, exact to 18 digits and clamped to int64.
func fractionOf(number string) (f fraction, ok bool) {
	// Refuse numbers such as 1e1000000000 before expanding them.
	if i := strings.IndexAny(number, "eE"); i >= 0 && len(strings.TrimLeft(number[i+1:], "+-0")) > 3 {
		if strings.HasPrefix(number[i+1:], "-") {
			return fraction{0, 1}, true
		}
		return fraction{math.MaxInt64, 1}, !strings.HasPrefix(number, "-")
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok || r.Sign() < 0 {
		return fraction{}, false
	}
	whole := new(big.Int).Quo(r.Num(), r.Denom())
	if !whole.IsInt64() {
		return fraction{math.MaxInt64, 1}, true
	}
	ten, scale := big.NewInt(10), big.NewInt(1)
	for range fractionDigits - len(whole.String()) {
		if new(big.Int).Rem(new(big.Int).Mul(r.Num(), scale), r.Denom()).Sign() == 0 {
			break
		}
		scale.Mul(scale, ten)
	}
	scaled := new(big.Int).Mul(r.Num(), scale)
	return fraction{scaled.Quo(scaled, r.Denom()).Int64(), scale.Int64()}, true
}
