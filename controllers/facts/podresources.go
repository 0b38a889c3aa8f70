package facts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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
	Limits *LimitRanges // of the pod's namespace; nil = none
	// Creating is false for a running pod.
	Creating bool
	// Bounds requests the lower and upper bounds too.
	Bounds bool
	// Now is the time for a running pod; zero = ignore startup boosts.
	Now time.Time
	// Template are the containers of its owner's pod template; nil = unknown. Only the end of a startup boost needs it.
	Template []corev1.Container
}

// PodChange is what the rules want for a pod.
type PodChange struct {
	Containers []ContainerChange // one for each container of the pod, in their order
	// Pod is nil for pods without pod-level resources.
	Pod *ResourceChange
	// ReportMissing: admission reports pod-level requests that have no recommendation.
	ReportMissing bool
	// Left is what stays as it is, and why, because an API server would refuse the pod otherwise.
	Left []string
	// Overlays are those with rules for pods, if something is left: what they make of the pod may be the reason.
	Overlays []string
	// Refused is why an API server would refuse the pod even so; empty if it would not.
	Refused string

	vpa *lang.Record // as the rules saw it; nil if none ran
}

// ContainerChange is what the rules want for one container of a pod.
type ContainerChange struct {
	ResourceChange
	Index int
	Name  string
	Boost Boost
}

// Boost is a container's startup boost as decided by rules.
type Boost struct {
	Raised bool // new pod: raise CPU while it starts
	On     bool // running pod: the boost continues
	Over   bool // running pod: the boost ends now
	// Remaining is the time until the boost ends; 0 = unknown.
	Remaining time.Duration
}

// ResourceChange is what the rules want for a container or for the pod level.
type ResourceChange struct {
	Requests Quantities // to write; absent resources stay as they are
	Limits   Quantities
	Notes    []string // for the vpaUpdates annotation
	Known    bool     // has a recommendation
	Withheld string   // why part of the recommendation is not applied; empty = all of it is
	// Recommendation after pod.fit, to compare a running pod with. Bounds are nil unless requested.
	Target, LowerBound, UpperBound *lang.Record

	ratio *lang.Record // of limits to requests
}

// Writes reports whether the change writes anything.
func (c *ResourceChange) Writes() bool { return len(c.Requests) > 0 || len(c.Limits) > 0 }

// boundOfPods is a recommendation to fit.
type boundOfPods struct {
	name      string
	container func(*vpav1.RecommendedContainerResources) corev1.ResourceList
	pod       func(*vpav1.RecommendedResources) corev1.ResourceList
}

// The recommendations for pods.
var (
	targetOfPods = boundOfPods{"target", func(r *vpav1.RecommendedContainerResources) corev1.ResourceList { return r.Target }, func(r *vpav1.RecommendedResources) corev1.ResourceList { return r.Target }}
	lowerOfPods  = boundOfPods{"lowerBound", func(r *vpav1.RecommendedContainerResources) corev1.ResourceList { return r.LowerBound }, func(r *vpav1.RecommendedResources) corev1.ResourceList { return r.LowerBound }}
	upperOfPods  = boundOfPods{"upperBound", func(r *vpav1.RecommendedContainerResources) corev1.ResourceList { return r.UpperBound }, func(r *vpav1.RecommendedResources) corev1.ResourceList { return r.UpperBound }}
)

// ResourcesForPod runs pod.fit and pod.resources: what admission would set, and what a resize
// sends. It is pure. Recommendations for containers that the pod lacks are ignored.
func ResourcesForPod(plan *engine.Plan, in PodInput, trace *engine.Trace) (PodChange, []*engine.RuleError) {
	out, failed := resourcesForPod(plan, in, trace)
	by := func() string {
		if overlays := plan.OverlaysAt(PodFit, PodResources); len(overlays) > 0 {
			return ", with the rules of RuleOverlay " + strings.Join(overlays, ", ")
		}
		return ""
	}
	boosts := slices.ContainsFunc(out.Containers, func(c ContainerChange) bool { return c.Boost.Raised })
	if lessCPU := out.keepValid(in, by); lessCPU && boosts {
		// The recommendation may fit without the boost.
		left := out.Left
		in.VPA = withoutBoosts(in.VPA)
		out, failed = resourcesForPod(plan, in, trace)
		out.Left = left
		out.keepValid(in, by)
	}
	if len(out.Left) > 0 {
		out.Overlays = plan.OverlaysAt(PodFit, PodResources)
	}
	return out, failed
}

// withoutBoosts is a VPA without startup boosts.
func withoutBoosts(v *vpav1.VerticalPodAutoscaler) *vpav1.VerticalPodAutoscaler {
	v = v.DeepCopy()
	v.Spec.StartupBoost = nil
	if v.Spec.ResourcePolicy != nil {
		for i := range v.Spec.ResourcePolicy.ContainerPolicies {
			v.Spec.ResourcePolicy.ContainerPolicies[i].StartupBoost = nil
		}
	}
	return v
}

func resourcesForPod(plan *engine.Plan, in PodInput, trace *engine.Trace) (PodChange, []*engine.RuleError) {
	b := bindPod(PolicyRulesOf(plan), in)
	// The bounds come first, because the items keep what came of the last.
	target := b.fitting()
	fit := func(of boundOfPods, trace *engine.Trace) []*engine.RuleError {
		b.bind(target, of)
		return plan.RunStages(PodFit, target.facts, trace)
	}
	var lower, upper []*lang.Record
	var failed []*engine.RuleError
	if in.Bounds {
		failed = fit(lowerOfPods, nil)
		lower = target.recommended()
		failed = append(failed, fit(upperOfPods, nil)...)
		upper = target.recommended()
	}
	failed = append(fit(targetOfPods, trace), failed...)
	final := b.resources(target)
	failed = append(failed, plan.RunStages(PodResources, final.facts, trace)...)

	out := PodChange{Containers: make([]ContainerChange, len(b.parts)), vpa: b.vpa}
	for i := range b.parts {
		part := &b.parts[i]
		change := &out.Containers[i]
		change.Index, change.Name = i, part.name
		change.take(part, i, target, final, lower, upper)
		change.Boost = boostOf(final.items[i].Record("boost"))
		for _, name := range ScaledResources {
			if why := final.items[i].Record("withheld").Text(string(name)); strings.HasPrefix(why, nothingFits) {
				out.Left = append(out.Left, fmt.Sprintf("%s of container %s stays as it is: %s", name, part.name, why))
			}
		}
	}
	if b.pod != nil {
		out.Pod = &ResourceChange{}
		out.Pod.take(b.pod, len(b.parts), target, final, lower, upper)
		out.ReportMissing = final.items[len(b.parts)].Record("report").Bool("missing")
	}
	return out, failed
}

func (c *ResourceChange) take(part *podPart, i int, target, final *fitted, lower, upper []*lang.Record) {
	c.Known = part.known
	item := final.items[i]
	c.Target = item.Record("recommended")
	if withheld := item.Record("withheld"); withheld != withheldSchema.Empty() {
		c.Withheld = withheldText(withheld)
	}
	if lower != nil {
		c.LowerBound, c.UpperBound = lower[i], upper[i]
	}
	c.Requests, c.Limits, c.ratio = quantities(item.Record("requests")), quantities(item.Record("limits")), item.Record("ratio")
	c.keepFractions(part.limits)
	c.Notes = append(append(c.Notes, target.items[i].Notes...), item.Notes...)
}

// withheldText joins the reasons for both resources; empty for none.
func withheldText(r *lang.Record) string {
	cpu, memory := r.Text("cpu"), r.Text("memory")
	if cpu != "" && memory != "" {
		return cpu + "; " + memory
	}
	return cpu + memory
}

// keepFractions copies the container's own limit to a request capped at it: the next whole byte
// would exceed a limit such as 1500m of memory.
func (c *ResourceChange) keepFractions(limits corev1.ResourceList) {
	for i := range c.Requests {
		request := &c.Requests[i]
		name := request.Resource
		limit, ok := limits[name]
		if _, written := c.Limits.Of(name); ok && !written && request.Cmp(limit) > 0 && request.Cmp(quantityOf(name, AmountOf(name, limit))) == 0 {
			request.Quantity = limit
		}
	}
}

// ScaledResources are the resources that VPAs scale, in report order.
var ScaledResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// CurrentResources prefers a container's status to its spec (UPSTREAM.md §3.3).
func CurrentResources(pod *corev1.Pod, container int) (requests, limits corev1.ResourceList) {
	c := &pod.Spec.Containers[container]
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == c.Name && s.Resources != nil {
			return asAsked(c.Resources.Requests, s.Resources.Requests, leastCPURequest), asAsked(c.Resources.Limits, s.Resources.Limits, leastCPULimit)
		}
	}
	return c.Resources.Requests, c.Resources.Limits
}

// asAsked returns the granted resources, with the requested CPU if it is below the node's minimum:
// a kubelet reports 1m as 2m, which would never match a recommendation of 1m.
func asAsked(asked, granted corev1.ResourceList, least int64) corev1.ResourceList {
	a, wanted := asked[corev1.ResourceCPU]
	g, ok := granted[corev1.ResourceCPU]
	if !wanted || !ok || MilliCPU(g) != least || MilliCPU(a) >= least {
		return granted
	}
	out := maps.Clone(granted)
	out[corev1.ResourceCPU] = a
	return out
}

// AmountOf returns a quantity in rule units: CPU in milli-cores, memory in bytes.
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
