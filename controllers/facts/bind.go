package facts

import (
	"slices"
	"time"

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Resources binds the CPU and memory of a resource list; others are left out.
func Resources(list corev1.ResourceList) *engine.Record {
	r := resourcesSchema.New()
	if q, ok := list[corev1.ResourceCPU]; ok {
		r.SetInt("cpu", MilliCPU(q))
	}
	if q, ok := list[corev1.ResourceMemory]; ok {
		r.SetInt("memory", Bytes(q))
	}
	return r
}

// ResourceList renders a record of resources; nil when both are unset.
func ResourceList(r *engine.Record) corev1.ResourceList {
	var list corev1.ResourceList
	set := func(name corev1.ResourceName, n int64) {
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = quantityOf(name, n)
	}
	if n, ok := r.Int("cpu"); ok {
		set(corev1.ResourceCPU, n)
	}
	if n, ok := r.Int("memory"); ok {
		set(corev1.ResourceMemory, n)
	}
	return list
}

// PolicyFor is the policy of a container: the first with its name, else the last named *, else nil.
// The two are never merged (UPSTREAM.md §1.2).
func PolicyFor(policy *vpav1.PodResourcePolicy, container string) *vpav1.ContainerResourcePolicy {
	if policy == nil {
		return nil
	}
	var wildcard *vpav1.ContainerResourcePolicy
	for i := range policy.ContainerPolicies {
		p := &policy.ContainerPolicies[i]
		switch p.ContainerName {
		case container:
			return p
		case vpav1.DefaultContainerResourcePolicy:
			wildcard = p
		}
	}
	return wildcard
}

// Policy binds a container policy; nil binds one with nothing set.
func Policy(p *vpav1.ContainerResourcePolicy) *engine.Record {
	r := policySchema.New()
	if p == nil {
		return r
	}
	if p.Mode != nil {
		r.SetString("mode", string(*p.Mode))
	}
	if p.MinAllowed != nil {
		r.SetRecord("minAllowed", Resources(p.MinAllowed))
	}
	if p.MaxAllowed != nil {
		r.SetRecord("maxAllowed", Resources(p.MaxAllowed))
	}
	if p.ControlledResources != nil {
		r.SetStrings("controlledResources", resourceNames(*p.ControlledResources))
	}
	if p.ControlledValues != nil {
		r.SetString("controlledValues", string(*p.ControlledValues))
	}
	if p.OOMBumpUpRatio != nil {
		r.SetDouble("oomBumpUpRatio", float64(p.OOMBumpUpRatio.MilliValue())/1000)
	}
	if p.OOMMinBumpUp != nil {
		r.SetInt("oomMinBumpUp", p.OOMMinBumpUp.MilliValue()/1000)
	}
	if d, ok := aggregationInterval(p); ok {
		r.SetInt("memoryAggregationInterval", int64(d))
	}
	if p.MemoryAggregationIntervalCount != nil {
		r.SetInt("memoryAggregationIntervalCount", *p.MemoryAggregationIntervalCount)
	}
	if p.MemoryPerCPU != nil {
		r.SetInt("memoryPerCPU", Bytes(*p.MemoryPerCPU))
	}
	if asked := policyRatios(p); asked != nil {
		r.SetRecord("requestToLimitRatio", asked)
	}
	if p.StartupBoost != nil {
		boost := startupBoost(p.StartupBoost)
		if boost == nil {
			boost = boostSchema.New() // an empty one is one, too: it takes the place of the VPA's
		}
		r.SetRecord("startupBoost", boost)
	}
	return r
}

// aggregationInterval reads either spelling. Validation sees to it that two say the same; of an object that it did not see,
// upstream's counts.
func aggregationInterval(p *vpav1.ContainerResourcePolicy) (d time.Duration, ok bool) {
	switch {
	case p.MemoryAggregationIntervalSeconds != nil:
		return time.Duration(*p.MemoryAggregationIntervalSeconds) * time.Second, true
	case p.MemoryAggregationInterval != nil:
		return p.MemoryAggregationInterval.Duration, true
	}
	return 0, false
}

func resourceNames(list []corev1.ResourceName) []string {
	out := make([]string, 0, len(list))
	for _, n := range list {
		out = append(out, string(n))
	}
	return out
}

// VPA binds the parts of a VPA that decide when it acts.
func VPA(v *vpav1.VerticalPodAutoscaler) *engine.Record {
	r := vpaSchema.New()
	var requirements []*engine.Record
	if p := v.Spec.UpdatePolicy; p != nil {
		if p.UpdateMode != nil {
			r.SetString("updateMode", string(*p.UpdateMode))
		}
		if p.MinReplicas != nil {
			r.SetInt("minReplicas", int64(*p.MinReplicas))
		}
		if p.EvictAfterOOMSeconds != nil {
			r.SetInt("evictAfterOOM", int64(*p.EvictAfterOOMSeconds)*int64(time.Second))
		}
		for _, e := range p.EvictionRequirements {
			if e != nil {
				requirements = append(requirements, requirementSchema.New().
					SetBool("cpu", slices.Contains(e.Resources, corev1.ResourceCPU)).
					SetBool("memory", slices.Contains(e.Resources, corev1.ResourceMemory)).
					SetString("change", string(e.ChangeRequirement)))
			}
		}
	}
	r.SetOpaque("evictionRequirements", engine.Records(requirements))
	if boost := startupBoost(v.Spec.StartupBoost); boost != nil {
		r.SetRecord("startupBoost", boost)
	}
	return r.SetBool("boosts", boosts(v)).SetBool("recommended", v.Status.Recommendation != nil)
}

// History is how much is known of a container's usage.
type History struct {
	Span          time.Duration // between the first and the last CPU sample
	Samples       int           // CPU samples
	MemorySamples int           // memory samples
	Restored      bool          // a checkpoint is part of it
}

// Estimate holds what container.estimate reads.
type Estimate struct {
	CPU, Memory Histogram
	History     History
	Containers  int    // scaled containers of the workload
	Before      Bounds // what the status of the VPA says; the zero value says nothing
}

// Estimated tells how far an estimate can be trusted, once container.estimate ran.
type Estimated struct {
	confidence *engine.Record
	Unknown    *engine.Record // resources of which too little is known: Bool("cpu") and Bool("memory")
}

// LowConfidence reports whether too little is known to trust it.
func (e Estimated) LowConfidence() bool { return e.confidence.Bool("low") }

// Bounds are the four resource records that estimate and recommend fill, in the order of BoundNames.
type Bounds [4]*engine.Record

// NewBounds returns bounds with nothing set.
func NewBounds() Bounds {
	return Bounds{resourcesSchema.New(), resourcesSchema.New(), resourcesSchema.New(), resourcesSchema.New()}
}

// BoundsOf binds a recommendation as it stands in a status.
func BoundsOf(c *vpav1.RecommendedContainerResources) Bounds {
	return Bounds{Resources(c.Target), Resources(c.LowerBound), Resources(c.UpperBound), Resources(c.UncappedTarget)}
}

func (b Bounds) addTo(f *engine.Facts) {
	for i, name := range BoundNames {
		f.AddItem("bound", name).Set("now", b[i])
	}
}

// EstimateFacts binds the facts of container.estimate; rules write into bounds, and into what is estimated.
func EstimateFacts(container string, e Estimate, policy *engine.Record, bounds Bounds) (f *engine.Facts, estimated Estimated) {
	estimated = Estimated{confidence: confidenceSchema.New(), Unknown: unknownSchema.New()}
	f = containerEstimate.NewFacts().Set("container", engine.Text(container))
	f.Set("usage", usageSchema.New().SetOpaque("cpu", e.CPU).SetOpaque("memory", e.Memory))
	f.Set("history", e.History.record())
	f.Set("containers", engine.Number(int64(e.Containers)))
	f.Set("policy", policy).Set("confidence", estimated.confidence).Set("unknown", estimated.Unknown)
	for i, name := range BoundNames {
		before := e.Before[i]
		if before == nil {
			before = noResources
		}
		f.AddItem("bound", name).Set("now", bounds[i]).Set("before", before)
	}
	return f, estimated
}

// noResources is read only.
var noResources = resourcesSchema.New()

func (h History) record() *engine.Record {
	return historySchema.New().SetInt("span", int64(h.Span)).SetInt("samples", int64(h.Samples)).
		SetInt("memorySamples", int64(h.MemorySamples)).SetBool("restored", h.Restored)
}

// RecommendFacts binds the facts of container.recommend; rules write into bounds. integerCPU says that the VPA asks for whole
// cores of this container; see IntegerCPU.
func RecommendFacts(container string, policy *engine.Record, integerCPU bool, bounds Bounds) *engine.Facts {
	f := containerRecommend.NewFacts().Set("container", engine.Text(container)).Set("policy", policy)
	f.Set("integerCPU", types.Bool(integerCPU))
	bounds.addTo(f)
	return f
}

// IntegerCPU reports whether a VPA asks for whole cores of a container, by annotation (UPSTREAM.md §1.6, §2.15).
func IntegerCPU(v *vpav1.VerticalPodAutoscaler, container string) bool {
	return v.Annotations["vpa-post-processor.kubernetes.io/"+container+"_integerCPU"] == "true"
}

// PolicyConstants are the facts that are the same for a container as long as its policy does not change, for the points
// that the recommender runs.
func PolicyConstants(policy *engine.Record) []engine.Constant {
	return []engine.Constant{
		{Point: UsageWindow, Name: "policy", Value: policy},
		{Point: UsageOOM, Name: "policy", Value: policy},
		{Point: ContainerSelect, Name: "policy", Value: policy},
		{Point: ContainerEstimate, Name: "policy", Value: policy},
		{Point: ContainerRecommend, Name: "policy", Value: policy},
	}
}

// Seen is what is known of a container before it is decided whether it is scaled.
type Seen struct {
	History History
	Present bool // a pod of the workload has this container now
	Pods    int  // pods of the workload
	Mixed   bool // pods of the workload need not have the same containers
}

// SelectFacts binds the facts of container.select.
func SelectFacts(container string, policy *engine.Record, seen Seen) *engine.Facts {
	f := containerSelect.NewFacts().Set("container", engine.Text(container)).Set("policy", policy)
	f.Set("history", seen.History.record())
	return f.Set("present", types.Bool(seen.Present)).Set("pods", engine.Number(int64(seen.Pods))).Set("mixed", types.Bool(seen.Mixed))
}

// UpdateFacts binds the facts of vpa.update.
func UpdateFacts(v *vpav1.VerticalPodAutoscaler) *engine.Facts {
	return vpaUpdate.NewFacts().Set("vpa", VPA(v))
}

// AdmitFacts binds the facts of pod.admit.
func AdmitFacts(v *vpav1.VerticalPodAutoscaler) *engine.Facts {
	return podAdmit.NewFacts().Set("vpa", VPA(v))
}
