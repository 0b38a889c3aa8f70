package facts

import (
	"maps"

	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// boundPod is a pod and its recommendation, bound for rules.
type boundPod struct {
	in       PodInput
	vpa      *lang.Record
	limits   *lang.Record
	parts    []podPart    // the containers
	pod      *podPart     // nil without pod-level resources
	init     *lang.Record // for pods with pod-level resources
	defaults *lang.Record // filled in by API servers
	level    *vpav1.RecommendedResources
	// uncounted resources are left alone, because their sums would not be exact.
	uncounted []corev1.ResourceName
}

// podPart is a container or the pod level.
type podPart struct {
	name             string
	known            bool
	policy, original *lang.Record
	limits           corev1.ResourceList // as written in the spec
	recommendation   *vpav1.RecommendedContainerResources
}

func bindPod(policies PolicyRules, in PodInput) *boundPod {
	b := &boundPod{in: in, vpa: VPA(in.VPA), limits: in.Limits.bind(), parts: make([]podPart, len(in.Pod.Spec.Containers))}
	var recommended []vpav1.RecommendedContainerResources
	if rec := in.VPA.Status.Recommendation; rec != nil {
		recommended, b.level = rec.ContainerRecommendations, rec.PodRecommendation
	}
	for i := range b.parts {
		part := &b.parts[i]
		part.name = in.Pod.Spec.Containers[i].Name
		part.policy = Policy(policies.For(in.VPA.Spec.ResourcePolicy, part.name))
		requests, limits := CurrentResources(in.Pod, i)
		part.original, part.limits = stanzaSchema.Of(stanza{requests, limits}), limits
		for j := range recommended {
			if !part.known && recommended[j].ContainerName == part.name {
				part.recommendation, part.known = &recommended[j], true
			}
		}
	}
	if requests, limits, ok := podResourcesOf(in.Pod); ok {
		b.pod = &podPart{name: "pod", known: b.level != nil, policy: PodPolicy(in.VPA.Spec.ResourcePolicy), original: stanzaSchema.Of(stanza{requests, limits})}
		b.init = initRequests(in.Pod)
		b.defaults = defaultRequests(in.Pod, requests, limits, b.init)
		b.uncounted = uncounted(in.Pod, requests, limits)
	}
	return b
}

// fitted is one run of a point over a pod: items are its containers, then the pod level if any.
type fitted struct {
	facts *registry.Facts
	items []*registry.Item
}

func (b *boundPod) fit(bound int) *fitted {
	of := &boundsOfPods[bound]
	f := &fitted{facts: podFit.NewFacts().Set("bound", lang.Text(of.name)).Set("scaling", scalingsSchema.Empty())}
	for i := range b.parts {
		part := &b.parts[i]
		recommended := resourcesSchema.Empty()
		if part.known {
			recommended = b.counted(of.container(part.recommendation))
		}
		b.add(f, "container", part, recommended, ratiosSchema.Empty(), withheldSchema.Empty())
	}
	if b.pod != nil {
		recommended := resourcesSchema.Empty()
		if b.pod.known {
			recommended = b.counted(of.pod(b.level))
		}
		b.add(f, "podLevel", b.pod, recommended, ratiosSchema.Empty(), withheldSchema.Empty())
	}
	return b.common(f)
}

// counted omits uncounted resources.
func (b *boundPod) counted(list corev1.ResourceList) *lang.Record {
	if len(b.uncounted) > 0 {
		list = maps.Clone(list)
		for _, name := range b.uncounted {
			delete(list, name)
		}
	}
	return Resources(list)
}

// resources binds the fitted target for pod.resources.
func (b *boundPod) resources(target *fitted) *fitted {
	f := &fitted{facts: podResources.NewFacts().Set("creating", types.Bool(b.in.Creating)).Set("start", startSchema.Of(b))}
	for i := range b.parts {
		item := target.items[i]
		b.add(f, "container", &b.parts[i], item.Record("recommended"), item.Record("ratio"), item.Record("withheld"))
	}
	if b.pod != nil {
		item := target.items[len(b.parts)]
		b.add(f, "podLevel", b.pod, item.Record("recommended"), item.Record("ratio"), item.Record("withheld"))
		f.items[len(b.parts)].Set("report", reportSchema.Empty())
	}
	return b.common(f)
}

func (b *boundPod) add(f *fitted, scope string, part *podPart, recommended, ratio, withheld *lang.Record) {
	item := f.facts.AddItem(scope, part.name).Set("policy", part.policy).Set("original", part.original).
		Set("recommended", recommended).Set("ratio", ratio).Set("withheld", withheld).
		Set("requests", resourcesSchema.Empty()).Set("limits", resourcesSchema.Empty())
	if scope == "container" {
		item.Set("hasRecommendation", types.Bool(part.known)).Set("share", resourcesSchema.Empty()).Set("boost", b.boost(part.name))
	} else {
		item.Set("init", b.init).Set("defaultRequests", b.defaults)
	}
	f.items = append(f.items, item)
}

func (b *boundPod) common(f *fitted) *fitted {
	f.facts.Set("vpa", b.vpa).Set("limitRange", b.limits)
	return f
}
