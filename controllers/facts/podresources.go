package facts

import (
	"maps"
	"slices"

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
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
}

// PodChange is what the rules want for a pod.
type PodChange struct {
	Containers []ContainerChange // one for each container of the pod, in their order
	// Pod is about the pod as a whole; nil for pods without resources at pod level.
	Pod *ResourceChange
}

// ContainerChange is what the rules want for one container of a pod.
type ContainerChange struct {
	ResourceChange
	Index int
	Name  string
	// Boosted: its CPU is raised while it starts.
	Boosted bool
}

// ResourceChange is what the rules want for a container, or for a pod as a whole.
type ResourceChange struct {
	Requests corev1.ResourceList // to be written; absent resources stay as they are
	Limits   corev1.ResourceList
	Notes    []string // phrases for the vpaUpdates annotation
	Known    bool     // there was a recommendation for it
	// The recommendation after pod.fit, for comparing a running pod with it. The bounds are nil unless they were asked for.
	Target, LowerBound, UpperBound *engine.Record
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
	b := bindPod(in)
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
		_, boosted := final.items[i].Record("boost").Int("cpu")
		change.Boosted = boosted && !slices.Contains(b.uncounted, corev1.ResourceCPU)
	}
	if b.pod != nil {
		out.Pod = &ResourceChange{}
		out.Pod.take(b.pod, len(b.parts), target, final, lower, upper)
		out.Pod.leave(b.uncounted)
	}
	return out, failed
}

// take reads what became of one part of a pod.
func (c *ResourceChange) take(part *podPart, i int, target, final, lower, upper *fitted) {
	c.Known = part.known
	c.Target = target.items[i].Record("recommended")
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

// boundPod is a pod and its recommendation as rules read them.
type boundPod struct {
	in     PodInput
	vpa    *engine.Record
	limits *engine.Record
	parts  []podPart      // the containers
	pod    *podPart       // nil without resources at pod level
	init   *engine.Record // of the pod, where it has resources of its own
	filled *engine.Record
	level  *vpav1.RecommendedResources
	// uncounted are the resources that are left alone, because sums of them would not be exact.
	uncounted []corev1.ResourceName
}

// podPart is a container, or the pod as a whole.
type podPart struct {
	name             string
	known            bool
	policy, original *engine.Record
	limits           corev1.ResourceList // as they are written
	recommendation   *vpav1.RecommendedContainerResources
}

func bindPod(in PodInput) *boundPod {
	b := &boundPod{in: in, vpa: VPA(in.VPA), limits: in.Limits.bind(), parts: make([]podPart, len(in.Pod.Spec.Containers))}
	var recommended []vpav1.RecommendedContainerResources
	if rec := in.VPA.Status.Recommendation; rec != nil {
		recommended, b.level = rec.ContainerRecommendations, rec.PodRecommendation
	}
	for i := range b.parts {
		part := &b.parts[i]
		part.name = in.Pod.Spec.Containers[i].Name
		part.policy = Policy(PolicyFor(in.VPA.Spec.ResourcePolicy, part.name))
		requests, limits := CurrentResources(in.Pod, i)
		part.original, part.limits = stanza(requests, limits), limits
		for j := range recommended {
			if !part.known && recommended[j].ContainerName == part.name {
				part.recommendation, part.known = &recommended[j], true
			}
		}
	}
	if requests, limits, ok := PodResourcesOf(in.Pod); ok {
		b.pod = &podPart{name: "pod", known: b.level != nil, policy: PodPolicy(in.VPA.Spec.ResourcePolicy), original: wholeStanza(requests, limits)}
		b.init = initRequests(in.Pod)
		b.filled = filledIn(in.Pod, requests, limits, b.init)
		b.uncounted = uncounted(in.Pod, requests, limits)
	}
	return b
}

// uncounted are the resources which a pod has at pod level, and of which some amount is no whole number of
// milli-cores or bytes, or too large a one. API servers compare exact sums, so such a pod could only be made invalid.
func uncounted(pod *corev1.Pod, requests, limits corev1.ResourceList) (out []corev1.ResourceName) {
	for _, name := range ScaledResources {
		if _, asked := requests[name]; !asked {
			if _, limited := limits[name]; !limited {
				continue
			}
		}
		odd := func(list corev1.ResourceList) bool {
			q, ok := list[name]
			if !ok {
				return false
			}
			whole := quantityOf(name, AmountOf(name, q))
			return whole.Cmp(q) != 0
		}
		oddContainer := func(c corev1.Container) bool { return odd(c.Resources.Requests) || odd(c.Resources.Limits) }
		if odd(requests) || odd(limits) || slices.ContainsFunc(pod.Spec.Containers, oddContainer) || slices.ContainsFunc(pod.Spec.InitContainers, oddContainer) {
			out = append(out, name)
		}
	}
	return out
}

// fitted is one run of a point over a pod: the items are its containers and then, where there is one, the pod as a whole.
type fitted struct {
	facts *engine.Facts
	items []*engine.Item
}

// fit binds one recommendation for pod.fit.
func (b *boundPod) fit(bound int) *fitted {
	of := &boundsOfPods[bound]
	f := &fitted{facts: podFit.NewFacts().Set("bound", engine.Text(of.name)).Set("scaling", scalingsSchema.New())}
	for i := range b.parts {
		part := &b.parts[i]
		recommended := resourcesSchema.New()
		if part.known {
			recommended = b.counted(of.container(part.recommendation))
		}
		b.add(f, "container", part, recommended, ratiosSchema.New())
	}
	if b.pod != nil {
		recommended := resourcesSchema.New()
		if b.pod.known {
			recommended = b.counted(of.pod(b.level))
		}
		b.add(f, "podLevel", b.pod, recommended, ratiosSchema.New())
	}
	return b.common(f)
}

// counted binds what is recommended of the resources that are not left alone.
func (b *boundPod) counted(list corev1.ResourceList) *engine.Record {
	if len(b.uncounted) > 0 {
		list = maps.Clone(list)
		for _, name := range b.uncounted {
			delete(list, name)
		}
	}
	return Resources(list)
}

// resources binds what pod.fit made of the target for pod.resources.
func (b *boundPod) resources(target *fitted) *fitted {
	f := &fitted{facts: podResources.NewFacts().Set("creating", types.Bool(b.in.Creating))}
	for i := range b.parts {
		b.add(f, "container", &b.parts[i], target.items[i].Record("recommended"), target.items[i].Record("ratio"))
	}
	if b.pod != nil {
		item := target.items[len(b.parts)]
		b.add(f, "podLevel", b.pod, item.Record("recommended"), item.Record("ratio"))
	}
	return b.common(f)
}

func (b *boundPod) add(f *fitted, scope string, part *podPart, recommended, ratio *engine.Record) {
	item := f.facts.AddItem(scope, part.name).Set("policy", part.policy).Set("original", part.original).
		Set("recommended", recommended).Set("ratio", ratio).
		Set("requests", resourcesSchema.New()).Set("limits", resourcesSchema.New())
	if scope == "container" {
		item.Set("known", types.Bool(part.known)).Set("share", resourcesSchema.New()).Set("boost", boostedSchema.New())
	} else {
		item.Set("init", b.init).Set("filledIn", b.filled)
	}
	f.items = append(f.items, item)
}

func (b *boundPod) common(f *fitted) *fitted {
	f.facts.Set("vpa", b.vpa).Set("limitRange", b.limits)
	return f
}

func stanza(requests, limits corev1.ResourceList) *engine.Record {
	return stanzaSchema.New().SetRecord("requests", Resources(requests)).SetRecord("limits", Resources(limits))
}

// wholeStanza binds what bounds containers: parts of a milli-core or a byte, of which a container cannot be given less, do not
// count.
func wholeStanza(requests, limits corev1.ResourceList) *engine.Record {
	bind := func(list corev1.ResourceList) *engine.Record {
		r := resourcesSchema.New()
		for _, name := range ScaledResources {
			q, ok := list[name]
			if !ok {
				continue
			}
			n := AmountOf(name, q)
			if whole := quantityOf(name, n); whole.Cmp(q) > 0 && n > 0 {
				n--
			}
			r.SetInt(string(name), n)
		}
		return r
	}
	return stanzaSchema.New().SetRecord("requests", bind(requests)).SetRecord("limits", bind(limits))
}

// ScaledResources are those of which VPAs know, in the order in which they are told.
var ScaledResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// CurrentResources are a container's requests and limits: what its status reports, else what its spec asks for
// (UPSTREAM.md §3.3).
func CurrentResources(pod *corev1.Pod, container int) (requests, limits corev1.ResourceList) {
	c := &pod.Spec.Containers[container]
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == c.Name && s.Resources != nil {
			return s.Resources.Requests, s.Resources.Limits
		}
	}
	return c.Resources.Requests, c.Resources.Limits
}

// PodResourcesOf are the requests and limits of a pod as a whole: what its status reports, else what its spec asks for. ok is
// false for pods that have neither CPU nor memory at pod level.
func PodResourcesOf(pod *corev1.Pod) (requests, limits corev1.ResourceList, ok bool) {
	asked := pod.Spec.Resources
	if asked == nil || !scalable(asked.Requests) && !scalable(asked.Limits) {
		return nil, nil, false
	}
	if actual := pod.Status.Resources; actual != nil {
		return actual.Requests, actual.Limits, true
	}
	return asked.Requests, asked.Limits, true
}

func scalable(list corev1.ResourceList) bool {
	return slices.ContainsFunc(ScaledResources, func(name corev1.ResourceName) bool {
		_, ok := list[name]
		return ok
	})
}

// filledIn are the requests at pod level that API servers fill in: up to Kubernetes 1.36 before they ask webhooks, from 1.37 on
// afterwards (KEP-2837). init are the pod's initRequests.
func filledIn(pod *corev1.Pod, requests, limits corev1.ResourceList, init *engine.Record) *engine.Record {
	out := resourcesSchema.New()
	for _, name := range ScaledResources {
		limit, limited := limits[name]
		if _, requested := requests[name]; requested || !limited {
			continue
		}
		running, asked := init.Get("running").(*engine.Record).Int(string(name))
		peak, once := init.Get("peak").(*engine.Record).Int(string(name))
		total := running
		for i := range pod.Spec.Containers {
			if q, ok := pod.Spec.Containers[i].Resources.Requests[name]; ok {
				total, asked = engine.SaturatingAdd(total, AmountOf(name, q)), true
			}
		}
		if asked || once {
			out.SetInt(string(name), max(total, peak))
		} else {
			out.SetInt(string(name), AmountOf(name, limit))
		}
	}
	return out
}

// initRequests sums up the init containers of a pod as API servers do where they compare a pod's requests with those of its
// containers (KEP-2837): those that go on running count beside the containers, the others one after the other.
func initRequests(pod *corev1.Pod) *engine.Record {
	running, peak := resourcesSchema.New(), resourcesSchema.New()
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		for _, name := range ScaledResources {
			q, ok := c.Resources.Requests[name]
			if !ok {
				continue // what runs beside it was counted before
			}
			field := string(name)
			before, _ := running.Int(field)
			now := engine.SaturatingAdd(before, AmountOf(name, q))
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
				running.SetInt(field, now)
			}
			highest, _ := peak.Int(field)
			peak.SetInt(field, max(highest, now))
		}
	}
	return initSchema.New().SetRecord("running", running).SetRecord("peak", peak)
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
