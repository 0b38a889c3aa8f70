package facts

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
)

// PodInput is what ResourcesForPod reads.
type PodInput struct {
	Pod    *corev1.Pod
	VPA    *vpav1.VerticalPodAutoscaler
	Limits *LimitRanges // of the pod's namespace; nil = there are none
	// Creating: the pod is about to be created; false for one that runs.
	Creating bool
	// Bounds: the lower and the upper bound are wanted too.
	Bounds bool
	// Now is the time, for a pod that runs; zero where nobody asks for the end of startup boosts.
	Now time.Time
}

// PodChange is what the rules want for a pod.
type PodChange struct {
	Containers []ContainerChange // one for each container of the pod, in their order
	// Pod is about the pod as a whole; nil for pods without resources at pod level.
	Pod *ResourceChange
	// ReportMissing: admission tells what of a pod with resources at pod level is requested without a recommendation.
	ReportMissing bool
}

// ContainerChange is what the rules want for one container of a pod.
type ContainerChange struct {
	ResourceChange
	Index int
	Name  string
	Boost Boost
}

// Boost is what the rules say of the startup boost of a container.
type Boost struct {
	Raised bool // its CPU is raised while it starts, of a pod that is about to be created
	On     bool // the running pod has one that goes on
	Over   bool // the running pod has one that ends now
	// Remaining is the time until it is over; 0 where that is not known.
	Remaining time.Duration
}

// ResourceChange is what the rules want for a container, or for a pod as a whole.
type ResourceChange struct {
	Requests corev1.ResourceList // to be written; absent resources stay as they are
	Limits   corev1.ResourceList
	Notes    []string // phrases for the vpaUpdates annotation
	Known    bool     // there was a recommendation for it
	Withheld bool     // a part of the recommendation is not applied, because it cannot be right
	// The recommendation after pod.fit, for comparing a running pod with it. The bounds are nil unless they were asked for.
	Target, LowerBound, UpperBound *lang.Record
}

// Writes reports whether anything is to be written.
func (c *ResourceChange) Writes() bool { return len(c.Requests) > 0 || len(c.Limits) > 0 }

// boundsOfPods are the recommendations that pod.fit fits, in the order in which it runs for them.
var boundsOfPods = []struct {
	name      string
	container func(*vpav1.RecommendedContainerResources) corev1.ResourceList
	pod       func(*vpav1.RecommendedResources) corev1.ResourceList
}{
	{"target", func(r *vpav1.RecommendedContainerResources) corev1.ResourceList { return r.Target }, func(r *vpav1.RecommendedResources) corev1.ResourceList { return r.Target }},
	{"lowerBound", func(r *vpav1.RecommendedContainerResources) corev1.ResourceList { return r.LowerBound }, func(r *vpav1.RecommendedResources) corev1.ResourceList { return r.LowerBound }},
	{"upperBound", func(r *vpav1.RecommendedContainerResources) corev1.ResourceList { return r.UpperBound }, func(r *vpav1.RecommendedResources) corev1.ResourceList { return r.UpperBound }},
}

// ResourcesForPod runs pod.fit and pod.resources for a pod: what admission would set, and what a resize sends.
// It is a pure function of its arguments. Recommendations for containers the pod does not have are ignored.
func ResourcesForPod(plan *engine.Plan, in PodInput, trace *engine.Trace) (PodChange, []*engine.RuleError) {
	b := bindPod(PolicyRulesOf(plan), in)
	var failed []*engine.RuleError
	fit := func(bound int, trace *engine.Trace) *fitted {
		f := b.fit(bound)
		failed = append(failed, plan.RunStages(PodFit, f.facts, trace)...)
		return f
	}
	target := fit(0, trace)
	var lower, upper *fitted
	if in.Bounds {
		lower, upper = fit(1, nil), fit(2, nil)
	}
	final := b.resources(target)
	failed = append(failed, plan.RunStages(PodResources, final.facts, trace)...)

	out := PodChange{Containers: make([]ContainerChange, len(b.parts))}
	for i := range b.parts {
		part := &b.parts[i]
		change := &out.Containers[i]
		change.Index, change.Name = i, part.name
		change.take(part, i, target, final, lower, upper)
		change.leave(b.uncounted)
		change.Boost = boostOf(final.items[i].Record("boost"))
		change.Boost.Raised = change.Boost.Raised && !slices.Contains(b.uncounted, corev1.ResourceCPU)
	}
	if b.pod != nil {
		out.Pod = &ResourceChange{}
		out.Pod.take(b.pod, len(b.parts), target, final, lower, upper)
		out.Pod.leave(b.uncounted)
		out.ReportMissing = final.items[len(b.parts)].Record("report").Bool("missing")
	}
	return out, failed
}

// take reads what became of one part of a pod.
func (c *ResourceChange) take(part *podPart, i int, target, final, lower, upper *fitted) {
	c.Known = part.known
	c.Target = target.items[i].Record("recommended")
	withheld := target.items[i].Record("withheld")
	c.Withheld = withheld.Bool("cpu") || withheld.Bool("memory")
	if lower != nil {
		c.LowerBound, c.UpperBound = lower.items[i].Record("recommended"), upper.items[i].Record("recommended")
	}
	item := final.items[i]
	c.Requests, c.Limits = ResourceList(item.Record("requests")), ResourceList(item.Record("limits"))
	c.keepFractions(part.limits)
	c.Notes = append(append(c.Notes, target.items[i].Notes...), item.Notes...)
}

// keepFractions writes a request that was held to the container's own limit as that limit: there are limits such as 1500m of
// memory, which the next whole byte would exceed.
func (c *ResourceChange) keepFractions(limits corev1.ResourceList) {
	for name, request := range c.Requests {
		limit, ok := limits[name]
		if _, written := c.Limits[name]; ok && !written && request.Cmp(limit) > 0 && request.Cmp(quantityOf(name, AmountOf(name, limit))) == 0 {
			c.Requests[name] = limit
		}
	}
}

// leave writes nothing about resources.
func (c *ResourceChange) leave(resources []corev1.ResourceName) {
	for _, name := range resources {
		delete(c.Requests, name)
		delete(c.Limits, name)
	}
}

// ScaledResources are those of which VPAs know, in the order in which they are told.
var ScaledResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// CurrentResources are a container's requests and limits: what its status reports, else what its spec asks for
// (UPSTREAM.md §3.3).
func CurrentResources(pod *corev1.Pod, container int) (requests, limits corev1.ResourceList) {
	c := &pod.Spec.Containers[container]
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == c.Name && s.Resources != nil {
			return asAsked(c.Resources.Requests, s.Resources.Requests, leastCPURequest), asAsked(c.Resources.Limits, s.Resources.Limits, leastCPULimit)
		}
	}
	return c.Resources.Requests, c.Resources.Limits
}

// asAsked is what a node granted, with CPU as it was asked for where nodes cannot tell less: a request of 1m is told as 2m, and would
// be off a recommendation of 1m for ever.
func asAsked(asked, granted corev1.ResourceList, least int64) corev1.ResourceList {
	a, wanted := asked[corev1.ResourceCPU]
	g, told := granted[corev1.ResourceCPU]
	if !wanted || !told || MilliCPU(g) != least || MilliCPU(a) >= least {
		return granted
	}
	out := maps.Clone(granted)
	out[corev1.ResourceCPU] = a
	return out
}

// AmountOf is a quantity in the unit of rules: CPU in milli-cores, memory in bytes.
func AmountOf(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return MilliCPU(q)
	}
	return Bytes(q)
}

func quantityOf(name corev1.ResourceName, n int64) resource.Quantity {
	if name == corev1.ResourceCPU {
		return CPUQuantity(n)
	}
	return MemoryQuantity(n)
}
