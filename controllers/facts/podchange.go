package facts

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/util/qos"

	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/engine/lang"
)

type changed struct {
	differs, qosClass, restarts, strainsMemory bool
	defaulted                                  string
}

var changeSchema = lang.Bind("Change",
	lang.BoolFrom("differs", "a new pod would get other resources than this one has", func(c changed) bool { return c.differs }),
	lang.BoolFrom("qosClass", "the QoS class of the pod would change, which a resize cannot do", func(c changed) bool { return c.qosClass }),
	lang.BoolFrom("restarts", "a resize would restart one of its containers (resizePolicy RestartContainer)", func(c changed) bool { return c.restarts }),
	lang.BoolFrom("strainsMemory",
		"memory may delay it on the node: a memory request would rise, or a memory limit would drop",
		func(c changed) bool { return c.strainsMemory }),
	lang.TextIf("defaulted",
		"containers that would get defaults of LimitRanges with a resize, because they lack the values; unset if there are none",
		func(c changed) (string, bool) { return c.defaulted, c.defaulted != "" }))

func changeOf(pod *corev1.Pod, change PodChange, defaulted string) changed {
	out := changed{defaulted: defaulted}
	for i := range change.Containers {
		c := &change.Containers[i]
		requests, limits := CurrentResources(pod, c.Index)
		out.differs = out.differs || alters(requests, c.Requests) || alters(limits, c.Limits)
		out.strainsMemory = out.strainsMemory || strainsMemory(requests, limits, &c.ResourceChange)
		spec := &pod.Spec.Containers[c.Index]
		for _, policy := range spec.ResizePolicy {
			if policy.RestartPolicy == corev1.RestartContainer && (altersOne(requests, c.Requests, policy.ResourceName) || altersOne(limits, c.Limits, policy.ResourceName)) {
				out.restarts = true
			}
		}
	}
	if c := change.Pod; c != nil {
		requests, limits, _ := podResourcesOf(pod)
		out.differs = out.differs || alters(requests, c.Requests) || alters(limits, c.Limits)
		out.strainsMemory = out.strainsMemory || strainsMemory(requests, limits, c)
	}
	out.qosClass = out.differs && ChangesQOS(pod, change)
	return out
}

// Restarts reports whether a resize to the change would restart a container of the pod.
func Restarts(pod *corev1.Pod, change PodChange) bool { return changeOf(pod, change, "").restarts }

// strainsMemory reports whether the memory request would rise or the memory limit would drop.
func strainsMemory(requests, limits corev1.ResourceList, c *ResourceChange) bool {
	request, _ := c.Requests.Of(corev1.ResourceMemory)
	limit, _ := c.Limits.Of(corev1.ResourceMemory)
	had, limited := limits[corev1.ResourceMemory]
	return request.Cmp(requests[corev1.ResourceMemory]) > 0 || !limit.IsZero() && (!limited || limit.Cmp(had) < 0)
}

// WithoutMemory drops memory from the change. The pod keeps its current memory, even if a pending
// resize asks for other values.
func (c PodChange) WithoutMemory(pod *corev1.Pod) PodChange {
	out := c
	out.Containers = make([]ContainerChange, len(c.Containers))
	for i := range c.Containers {
		out.Containers[i] = c.Containers[i]
		requests, limits := CurrentResources(pod, c.Containers[i].Index)
		out.Containers[i].keepMemory(&pod.Spec.Containers[c.Containers[i].Index].Resources, requests, limits)
	}
	if c.Pod != nil {
		whole := *c.Pod
		requests, limits, _ := podResourcesOf(pod)
		whole.keepMemory(pod.Spec.Resources, requests, limits)
		out.Pod = &whole
	}
	return out
}

// keepMemory writes the current memory where the spec asks for something else.
func (c *ResourceChange) keepMemory(asked *corev1.ResourceRequirements, requests, limits corev1.ResourceList) {
	keep := func(written Quantities, asked, has corev1.ResourceList) (out Quantities) {
		if cpu, ok := written.Of(corev1.ResourceCPU); ok {
			out = append(out, Quantity{corev1.ResourceCPU, cpu})
		}
		before, there := asked[corev1.ResourceMemory]
		if now, ok := has[corev1.ResourceMemory]; ok && there && now.Cmp(before) != 0 {
			out = append(out, Quantity{corev1.ResourceMemory, now})
		}
		return out
	}
	c.Requests, c.Limits = keep(c.Requests, asked.Requests, requests), keep(c.Limits, asked.Limits, limits)
}

// alters reports whether the write changes any value.
func alters(now corev1.ResourceList, written Quantities) bool {
	return slices.ContainsFunc(written, func(q Quantity) bool { return altersOne(now, written, q.Resource) })
}

func altersOne(now corev1.ResourceList, written Quantities, name corev1.ResourceName) bool {
	q, ok := written.Of(name)
	if !ok {
		return false
	}
	before, had := now[name]
	return !had || before.Cmp(q) != 0
}

// ChangesQOS reports whether the pod's QoS class would change, which API servers refuse (KEP-1287).
func ChangesQOS(pod *corev1.Pod, change PodChange) bool {
	return qos.ComputePodQOS(PodAfter(pod, change)) != qos.GetPodQOS(pod)
}

// PodAfter has only the pod's resources after a change, its containers in order.
func PodAfter(pod *corev1.Pod, change PodChange) *corev1.Pod {
	after := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: pod.Spec.InitContainers, Overhead: pod.Spec.Overhead, Containers: make([]corev1.Container, len(pod.Spec.Containers))}}
	for i := range pod.Spec.Containers {
		after.Spec.Containers[i].Resources = pod.Spec.Containers[i].Resources
	}
	for i := range change.Containers {
		c := &change.Containers[i]
		after.Spec.Containers[c.Index].Resources = with(&pod.Spec.Containers[c.Index].Resources, &c.ResourceChange)
	}
	if now := PodLevel(pod); now != nil {
		whole := *now
		if change.Pod != nil {
			whole = with(now, change.Pod)
		}
		after.Spec.Resources = &whole
	}
	return after
}

func with(now *corev1.ResourceRequirements, c *ResourceChange) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: merged(now.Requests, c.Requests), Limits: merged(now.Limits, c.Limits)}
}

func merged(now corev1.ResourceList, written Quantities) corev1.ResourceList {
	out := make(corev1.ResourceList, len(now)+len(written))
	maps.Copy(out, now)
	for _, q := range written {
		out[q.Resource] = q.Quantity
	}
	return out
}

// Requests are a pod's requests by container; the empty name is the pod level (AEP-8818).
type Requests map[string]corev1.ResourceList

// SpecRequests returns the requests in a pod's spec.
func SpecRequests(pod *corev1.Pod) Requests { return RequestsAfter(pod, PodChange{}) }

// RequestsAfter returns the requests of a pod's spec after a change.
func RequestsAfter(pod *corev1.Pod, change PodChange) Requests {
	out := Requests{}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		out[c.Name] = merged(c.Resources.Requests, nil)
	}
	for i := range change.Containers {
		c := &change.Containers[i]
		out[c.Name] = merged(out[c.Name], c.Requests)
	}
	if whole := PodLevel(pod); whole != nil {
		out[""] = merged(whole.Requests, nil)
		if change.Pod != nil {
			out[""] = merged(out[""], change.Pod.Requests)
		}
	}
	return out
}

// LowerThan reports whether any CPU or memory request is below other's.
func (r Requests) LowerThan(other Requests) bool {
	for name, list := range r {
		for _, resource := range ScaledResources {
			now, ok := list[resource]
			before, known := other[name][resource]
			if ok && known && now.Cmp(before) < 0 {
				return true
			}
		}
	}
	return false
}

// KeepAmounts drops all requests and limits from a change. Boosts that are over are so all the same.
func (c *PodChange) KeepAmounts() {
	for i := range c.Containers {
		c.Containers[i].Requests, c.Containers[i].Limits = nil, nil
	}
	if c.Pod != nil {
		c.Pod.Requests, c.Pod.Limits = nil, nil
	}
}

// Alteration is one changed amount of a pod.
type Alteration struct {
	Container string // empty = the pod as a whole
	Field     string // requests.cpu, requests.memory, limits.cpu or limits.memory
	From      string // as a quantity; empty = unset
	To        string // as a quantity
}

// Alterations lists what a change does to a running pod: containers in order, then the pod level.
func Alterations(pod *corev1.Pod, change PodChange) (out []Alteration) {
	add := func(container, kind string, now corev1.ResourceList, written Quantities) {
		for _, to := range written {
			if !altersOne(now, written, to.Resource) {
				continue
			}
			alteration := Alteration{Container: container, Field: kind + "." + string(to.Resource), To: to.String()}
			if from, ok := now[to.Resource]; ok {
				alteration.From = from.String()
			}
			out = append(out, alteration)
		}
	}
	for i := range change.Containers {
		c := &change.Containers[i]
		requests, limits := CurrentResources(pod, c.Index)
		add(c.Name, "requests", requests, c.Requests)
		add(c.Name, "limits", limits, c.Limits)
	}
	if c := change.Pod; c != nil {
		requests, limits, _ := podResourcesOf(pod)
		add("", "requests", requests, c.Requests)
		add("", "limits", limits, c.Limits)
	}
	return out
}

// Differences describes where the CPU and memory of two lists differ, e.g. "cpu 250m → 300m".
func Differences(from, to corev1.ResourceList) []string {
	var out []string
	for _, name := range ScaledResources {
		a, hasA := from[name]
		b, hasB := to[name]
		switch {
		case hasA && hasB && a.Cmp(b) != 0:
			out = append(out, string(name)+" "+quantity.FromTo(a.String(), b.String()))
		case hasA && !hasB:
			out = append(out, string(name)+" "+quantity.Short(a.String())+" → unset")
		case hasB && !hasA:
			out = append(out, string(name)+" unset → "+quantity.Short(b.String()))
		}
	}
	return out
}

// ChangeDifferences describes how two changes of the same pod differ; an empty change writes
// nothing.
func ChangeDifferences(from, to PodChange) []string {
	pod := func(c PodChange) ResourceChange {
		if c.Pod == nil {
			return ResourceChange{}
		}
		return *c.Pod
	}
	out := differences("pod", pod(from), pod(to))
	byName := func(list []ContainerChange, name string) ResourceChange {
		if i := slices.IndexFunc(list, func(c ContainerChange) bool { return c.Name == name }); i >= 0 {
			return list[i].ResourceChange
		}
		return ResourceChange{}
	}
	longer := from.Containers
	if len(to.Containers) > len(from.Containers) {
		longer = to.Containers
	}
	for i := range longer {
		name := longer[i].Name
		out = append(out, differences("container "+name, byName(from.Containers, name), byName(to.Containers, name))...)
	}
	return out
}

func differences(what string, a, b ResourceChange) (out []string) {
	for _, d := range Differences(a.Requests.List(), b.Requests.List()) {
		out = append(out, what+" request "+d)
	}
	for _, d := range Differences(a.Limits.List(), b.Limits.List()) {
		out = append(out, what+" limit "+d)
	}
	return out
}
