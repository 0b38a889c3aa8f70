package facts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
)

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
