package facts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/poddefaults"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
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
	Objects  Objects // nil = none are known
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
	bindObjects(target.facts, in.Objects, plan, PodFit, in.VPA, in.Pod)
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
	bindObjects(final.facts, in.Objects, plan, PodResources, in.VPA, in.Pod)
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

// boundPod is a pod and its recommendation, bound for rules.
type boundPod struct {
	in                             PodInput
	vpa                            *lang.Record
	limits                         *lang.Record
	parts                          []podPart    // the containers
	pod                            *podPart     // nil without pod-level resources
	init                           *lang.Record // for pods with pod-level resources
	defaultRequests, defaultLimits *lang.Record // that API servers fill in
	sidecars                       *lang.Record // what they have
	level                          *vpav1.RecommendedResources
}

// podPart is a container or the pod level.
type podPart struct {
	name             string
	known            bool
	policy, original *lang.Record
	kept             *lang.Record
	limits           corev1.ResourceList // as written in the spec
	recommendation   *vpav1.RecommendedContainerResources
}

func bindPod(policies PolicyRules, in PodInput) *boundPod {
	b := &boundPod{in: in, vpa: VPA(in.VPA), limits: in.Limits.bind(), sidecars: sidecars(in.Pod), parts: make([]podPart, len(in.Pod.Spec.Containers))}
	var recommended []vpav1.RecommendedContainerResources
	if rec := in.VPA.Status.Recommendation; rec != nil {
		recommended, b.level = rec.ContainerRecommendations, rec.PodRecommendation
	}
	bound := map[*vpav1.ContainerResourcePolicy]*lang.Record{} // many containers have the same, that of the wildcard
	for i := range b.parts {
		part := &b.parts[i]
		part.name = in.Pod.Spec.Containers[i].Name
		policy := policies.For(in.VPA.Spec.ResourcePolicy, part.name)
		if bound[policy] == nil {
			bound[policy] = Policy(policy)
		}
		part.policy = bound[policy]
		requests, limits := CurrentResources(in.Pod, i)
		part.original, part.limits, part.kept = stanzaSchema.Of(stanza{requests, limits}), limits, b.keptRatio(part.name)
		for j := range recommended {
			if !part.known && recommended[j].ContainerName == part.name {
				part.recommendation, part.known = &recommended[j], true
			}
		}
	}
	if requests, limits, ok := podResourcesOf(in.Pod); ok {
		b.pod = &podPart{name: "pod", known: b.level != nil, policy: PodPolicy(in.VPA.Spec.ResourcePolicy), original: stanzaSchema.Of(stanza{requests, limits}), kept: b.keptRatio("")}
		b.init = initRequests(in.Pod)
		b.defaultRequests, b.defaultLimits = defaultRequests(in.Pod, requests, limits, b.init), Resources(poddefaults.PodLimits(&in.Pod.Spec, requests))
	}
	return b
}

// fitted are the facts of a point about a pod: items are its containers, then the pod level if any.
type fitted struct {
	facts *registry.Facts
	items []*registry.Item
}

// recommended is what rules made of the recommendation for each item.
func (f *fitted) recommended() []*lang.Record {
	out := make([]*lang.Record, len(f.items))
	for i, item := range f.items {
		out[i] = item.Record("recommended")
	}
	return out
}

// fitting binds a pod for pod.fit; bound comes next.
func (b *boundPod) fitting() *fitted {
	f := &fitted{facts: podFit.NewFacts()}
	b.addAll(f)
	return b.common(f)
}

// bind binds a recommendation, in place of the one before.
func (b *boundPod) bind(f *fitted, of boundOfPods) {
	f.facts.Notes = nil
	f.facts.Set("bound", lang.Text(of.name))
	for i, item := range f.items {
		recommended := resourcesSchema.Empty()
		switch {
		case i == len(b.parts) && b.pod.known:
			recommended = Resources(of.pod(b.level))
		case i < len(b.parts) && b.parts[i].known:
			recommended = Resources(of.container(b.parts[i].recommendation))
		}
		item.Notes = nil
		b.start(item, recommended, ratiosSchema.Empty(), withheldSchema.Empty())
		if i < len(b.parts) {
			item.Set("boost", b.boost(b.parts[i].name))
		}
	}
}

// resources binds the fitted target for pod.resources.
func (b *boundPod) resources(target *fitted) *fitted {
	f := &fitted{facts: podResources.NewFacts().Set("start", startSchema.Of(b))}
	b.addAll(f)
	for i, item := range f.items {
		from := target.items[i]
		b.start(item, from.Record("recommended"), from.Record("ratio"), from.Record("withheld"))
		if i < len(b.parts) {
			item.Set("boost", from.Record("boost")).Set("template", b.template(b.parts[i].name))
		}
	}
	if b.pod != nil {
		f.items[len(b.parts)].Set("report", reportSchema.Empty())
	}
	return b.common(f)
}

// addAll adds the items, with the facts that rules only read.
func (b *boundPod) addAll(f *fitted) {
	f.items = make([]*registry.Item, 0, len(b.parts)+1)
	for i := range b.parts {
		part := &b.parts[i]
		f.items = append(f.items, f.facts.AddItem("container", part.name).
			Set("policy", part.policy).Set("original", part.original).Set("keptRatio", part.kept).Set("hasRecommendation", types.Bool(part.known)))
	}
	if b.pod != nil {
		f.items = append(f.items, f.facts.AddItem("podLevel", b.pod.name).
			Set("policy", b.pod.policy).Set("original", b.pod.original).Set("keptRatio", b.pod.kept).Set("init", b.init).Set("defaultRequests", b.defaultRequests).Set("defaultLimits", b.defaultLimits))
	}
}

// start binds what rules write of an item.
func (b *boundPod) start(item *registry.Item, recommended, ratio, withheld *lang.Record) {
	item.Set("recommended", recommended).Set("ratio", ratio).Set("withheld", withheld).
		Set("requests", resourcesSchema.Empty()).Set("limits", resourcesSchema.Empty())
}

func (b *boundPod) common(f *fitted) *fitted {
	f.facts.Set("vpa", b.vpa).Set("limitRange", b.limits).Set("sidecars", b.sidecars).Set("creating", types.Bool(b.in.Creating))
	return f
}
