package facts

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// ContainerChange is what the rules want for one container of a pod.
type ContainerChange struct {
	Index    int
	Name     string
	Requests corev1.ResourceList // to be written; absent resources stay as they are
	Limits   corev1.ResourceList
	Notes    []string // phrases for the vpaUpdates annotation
	Managed  bool     // there was a recommendation for it
	// The recommendation after pod.fit, for comparing a running pod with it.
	Target, LowerBound, UpperBound *engine.Record
}

// ResourcesForPod runs pod.fit and pod.resources for a pod: what admission would set, and what a resize sends.
// It is a pure function of its arguments. Recommendations for containers the pod does not have are ignored.
func ResourcesForPod(plan *engine.Plan, pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, trace *engine.Trace) ([]ContainerChange, []*engine.RuleError) {
	recommended := map[string]*vpav1.RecommendedContainerResources{}
	if rec := v.Status.Recommendation; rec != nil {
		for i := range rec.ContainerRecommendations {
			recommended[rec.ContainerRecommendations[i].ContainerName] = &rec.ContainerRecommendations[i]
		}
	}
	changes := make([]ContainerChange, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		changes[i] = ContainerChange{Index: i, Name: pod.Spec.Containers[i].Name}
	}
	var failed []*engine.RuleError
	fit := func(bound func(*vpav1.RecommendedContainerResources) corev1.ResourceList, trace *engine.Trace) *podItems {
		items := bindPod(pod, v, recommended, bound)
		failed = append(failed, plan.RunStages(PodFit, items.facts, trace)...)
		return items
	}
	target := fit(func(r *vpav1.RecommendedContainerResources) corev1.ResourceList { return r.Target }, trace)
	lower := fit(func(r *vpav1.RecommendedContainerResources) corev1.ResourceList { return r.LowerBound }, nil)
	upper := fit(func(r *vpav1.RecommendedContainerResources) corev1.ResourceList { return r.UpperBound }, nil)
	failed = append(failed, plan.RunStages(PodResources, target.resourceFacts(), trace)...)
	for i, item := range target.items {
		c := &changes[item.container]
		c.Managed = true
		c.Target, c.LowerBound, c.UpperBound = item.recommended, lower.items[i].recommended, upper.items[i].recommended
		c.Requests, c.Limits = ResourceList(item.requests), ResourceList(item.limits)
		c.Notes = append(append(c.Notes, item.fit.Notes...), item.resources.Notes...)
	}
	return changes, failed
}

// podItems are the containers of a pod that have a recommendation, bound to facts.
type podItems struct {
	facts *engine.Facts
	items []*podItem
}

type podItem struct {
	container                     int // index in the pod's spec
	name                          string
	policy, original              *engine.Record
	recommended, requests, limits *engine.Record
	fit, resources                *engine.Item
}

func bindPod(pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, recommended map[string]*vpav1.RecommendedContainerResources,
	bound func(*vpav1.RecommendedContainerResources) corev1.ResourceList) *podItems {
	out := &podItems{facts: podFit.NewFacts()}
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		rec := recommended[name]
		if rec == nil {
			continue
		}
		requests, limits := CurrentResources(pod, i)
		item := &podItem{
			container: i, name: name,
			policy:      Policy(PolicyFor(v.Spec.ResourcePolicy, name)),
			original:    stanzaSchema.New().SetRecord("requests", Resources(requests)).SetRecord("limits", Resources(limits)),
			recommended: Resources(bound(rec)),
			requests:    resourcesSchema.New(), limits: resourcesSchema.New(),
		}
		item.fit = item.addTo(out.facts)
		out.items = append(out.items, item)
	}
	return out
}

// resourceFacts binds the same containers, with what pod.fit made of them, for pod.resources.
func (p *podItems) resourceFacts() *engine.Facts {
	f := podResources.NewFacts()
	for _, item := range p.items {
		item.resources = item.addTo(f)
	}
	return f
}

func (i *podItem) addTo(f *engine.Facts) *engine.Item {
	return f.AddItem("container", i.name).
		Set("policy", i.policy).Set("original", i.original).
		Set("recommended", i.recommended).Set("requests", i.requests).Set("limits", i.limits)
}

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
