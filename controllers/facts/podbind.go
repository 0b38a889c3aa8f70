package facts

import (
	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/poddefaults"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

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
