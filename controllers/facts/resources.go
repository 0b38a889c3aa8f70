package facts

import (
	"encoding/json"
	"math/big"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/engine/lang"
)

var resourcesSchema = lang.Bind("Resources",
	lang.IntIf("cpu", lang.IntOf(CPU), "milli-cores", func(list corev1.ResourceList) (int64, bool) {
		q, ok := list[corev1.ResourceCPU]
		return MilliCPU(q), ok
	}),
	lang.IntIf("memory", lang.IntOf(Memory), "bytes", func(list corev1.ResourceList) (int64, bool) {
		q, ok := list[corev1.ResourceMemory]
		return Bytes(q), ok
	}))

// Resources binds the CPU and memory of a resource list.
func Resources(list corev1.ResourceList) *lang.Record { return resourcesSchema.Of(list) }

// resourcesIf is Resources, but nil for a nil list.
func resourcesIf(list corev1.ResourceList) *lang.Record {
	if list == nil {
		return nil
	}
	return Resources(list)
}

// stanza holds the resources of a container or of the pod level.
type stanza struct{ requests, limits corev1.ResourceList }

var stanzaSchema = lang.Bind("ResourceStanza",
	lang.RecordFrom("requests", resourcesSchema.Schema, "", func(s stanza) *lang.Record { return Resources(s.requests) }),
	lang.RecordFrom("limits", resourcesSchema.Schema, "", func(s stanza) *lang.Record { return Resources(s.limits) }))

// ResourceList renders a record of resources; nil when both are unset.
func ResourceList(r *lang.Record) corev1.ResourceList { return quantities(r).List() }

// Quantities are amounts of CPU and memory, in the order of ScaledResources. They take a quarter of
// the memory of a ResourceList.
type Quantities []Quantity

// Quantity is an amount of one resource.
type Quantity struct {
	Resource corev1.ResourceName
	resource.Quantity
}

// QuantitiesOf returns the CPU and memory of a list.
func QuantitiesOf(list corev1.ResourceList) (out Quantities) {
	for _, name := range ScaledResources {
		if q, ok := list[name]; ok {
			out = append(out, Quantity{name, q})
		}
	}
	return out
}

// quantities renders a record of resources; nil when both are unset.
func quantities(r *lang.Record) Quantities {
	out := make(Quantities, 0, len(ScaledResources))
	for _, name := range ScaledResources {
		if n, ok := r.Int(string(name)); ok {
			out = append(out, Quantity{name, quantityOf(name, n)})
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Of returns the amount of a resource.
func (q Quantities) Of(name corev1.ResourceName) (amount resource.Quantity, ok bool) {
	for i := range q {
		if q[i].Resource == name {
			return q[i].Quantity, true
		}
	}
	return amount, false
}

// List returns the quantities as a ResourceList; nil for none.
func (q Quantities) List() corev1.ResourceList {
	if len(q) == 0 {
		return nil
	}
	return merged(nil, q)
}

// given dereferences p; ok is false for nil.
func given[T any](p *T) (v T, ok bool) {
	if p == nil {
		return v, false
	}
	return *p, true
}

// stanzaNote is how annotations hold CPU and memory of a container.
type stanzaNote struct {
	Requests map[string]string `json:"requests"`
	Limits   map[string]string `json:"limits"`
}

// writeStanza encodes CPU and memory; other resources are left out.
func writeStanza(requests, limits corev1.ResourceList) string {
	text := func(list corev1.ResourceList) map[string]string {
		out := map[string]string{}
		for _, name := range ScaledResources {
			if q, ok := list[name]; ok {
				out[string(name)] = q.String()
			}
		}
		return out
	}
	data, _ := json.Marshal(stanzaNote{text(requests), text(limits)}) // a struct of string maps always marshals
	return string(data)
}

// readStanza is the inverse of writeStanza. It rejects partly readable notes: a missing entry means
// that there was none.
func readStanza(text string) (requests, limits corev1.ResourceList, ok bool) {
	var note stanzaNote
	if json.Unmarshal([]byte(text), &note) != nil || note.Requests == nil || note.Limits == nil {
		return nil, nil, false
	}
	list := func(values map[string]string) (out corev1.ResourceList, ok bool) {
		out = corev1.ResourceList{}
		for _, name := range ScaledResources {
			value, there := values[string(name)]
			if !there {
				continue
			}
			q, err := quantity.Parse(value)
			if err != nil || q.Sign() < 0 {
				return nil, false
			}
			out[name] = q
		}
		return out, true
	}
	requests, ok = list(note.Requests)
	if !ok {
		return nil, nil, false
	}
	limits, ok = list(note.Limits)
	return requests, limits, ok
}

// annotationLimitRatio, with a slash and the name of a container or without, records a request and a limit
// whose ratio in-place updates keep. It is celvpa's own: what the pod has is rounded, and a ratio of that
// would come down with each resize.
const annotationLimitRatio = "vpaLimitRatio"

// LimitRatioAnnotation is the key for a container; for the pod as a whole the name is empty.
func LimitRatioAnnotation(container string) string {
	if container == "" {
		return annotationLimitRatio
	}
	return annotationLimitRatio + "/" + container
}

// keptRatio binds the annotation of a running pod. It is empty if it is missing or cannot be read.
func (b *boundPod) keptRatio(container string) *lang.Record {
	if !b.in.Creating {
		if text, there := b.in.Pod.Annotations[LimitRatioAnnotation(container)]; there {
			if requests, limits, ok := readStanza(text); ok {
				return stanzaSchema.Of(stanza{requests, limits})
			}
		}
	}
	return stanzaSchema.Empty()
}

// LimitRatio is the value of LimitRatioAnnotation after a resize; empty if the limits that it writes have
// the ratio exactly, or follow none.
func (c *ResourceChange) LimitRatio() string {
	if c.ratio == nil {
		return ""
	}
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	inexact := false
	for _, name := range ScaledResources {
		ratio, known := c.ratio.Field(string(name)).(*lang.Record)
		written, writes := c.Requests.Of(name)
		if _, follows := c.Limits.Of(name); !known || !writes || !follows {
			continue
		}
		limit, hasLimit := ratio.Int("limit")
		request, hasRequest := ratio.Int("request")
		if !hasLimit || !hasRequest || request <= 0 {
			continue
		}
		if extra, _ := ratio.Int("extra"); extra != 0 {
			continue // of a policy
		}
		requests[name], limits[name] = quantityOf(name, request), quantityOf(name, limit)
		product := new(big.Int).Mul(big.NewInt(AmountOf(name, written)), big.NewInt(limit))
		inexact = inexact || product.Rem(product, big.NewInt(request)).Sign() != 0
	}
	if !inexact {
		return ""
	}
	return writeStanza(requests, limits)
}

// PodLevel returns the pod-level resources of a spec, or nil. Like API servers, it treats a stanza
// that names no resource as absent; charts render such stanzas.
func PodLevel(pod *corev1.Pod) *corev1.ResourceRequirements {
	if r := pod.Spec.Resources; r != nil && len(r.Requests)+len(r.Limits) > 0 {
		return r
	}
	return nil
}

// podResourcesOf returns pod-level requests and limits from the status, else from the spec. ok is
// false without CPU and memory at pod level.
func podResourcesOf(pod *corev1.Pod) (requests, limits corev1.ResourceList, ok bool) {
	asked := PodLevel(pod)
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

// defaultRequests returns the pod-level requests that API servers fill in for a pod with pod-level
// resources (KEP-2837): before webhooks up to Kubernetes 1.36, after them from 1.37. init are the
// pod's initRequests.
func defaultRequests(pod *corev1.Pod, requests, limits corev1.ResourceList, init *lang.Record) *lang.Record {
	out := resourcesSchema.New()
	for _, name := range ScaledResources {
		if _, requested := requests[name]; requested {
			continue
		}
		running, asked := init.Field("running").(*lang.Record).Int(string(name))
		peak, once := init.Field("peak").(*lang.Record).Int(string(name))
		total := running
		for i := range pod.Spec.Containers {
			if q, ok := pod.Spec.Containers[i].Resources.Requests[name]; ok {
				total, asked = lang.SaturatingAdd(total, AmountOf(name, q)), true
			}
		}
		if asked || once {
			out.SetInt(string(name), max(total, peak))
		} else if limit, limited := limits[name]; limited {
			out.SetInt(string(name), AmountOf(name, limit))
		}
	}
	return out
}

// initSums are the requests of init containers.
type initSums struct{ running, peak *lang.Record }

var initSchema = lang.Bind("InitContainers",
	lang.RecordFrom("running", resourcesSchema.Schema, "requests of those that keep running (sidecars)", func(s initSums) *lang.Record { return s.running }),
	lang.RecordFrom("peak", resourcesSchema.Schema, "the highest request while they run one after the other", func(s initSums) *lang.Record { return s.peak }))

// initRequests sums init containers the way API servers compare a pod's requests with its
// containers' (KEP-2837): sidecars add to the containers, the others run one by one.
func initRequests(pod *corev1.Pod) *lang.Record {
	running, peak := resourcesSchema.New(), resourcesSchema.New()
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		for _, name := range ScaledResources {
			q, ok := c.Resources.Requests[name]
			if !ok {
				continue // sidecars before it are already counted
			}
			field := string(name)
			before, _ := running.Int(field)
			now := lang.SaturatingAdd(before, AmountOf(name, q))
			if keepsRunning(c) {
				running.SetInt(field, now)
			}
			highest, _ := peak.Int(field)
			peak.SetInt(field, max(highest, now))
		}
	}
	return initSchema.Of(initSums{running, peak})
}

// keepsRunning reports whether an init container is a sidecar.
func keepsRunning(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// sidecars sums what sidecars have, which LimitRanger adds to the containers.
func sidecars(pod *corev1.Pod) *lang.Record {
	if len(pod.Spec.InitContainers) == 0 {
		return stanzaSchema.Empty()
	}
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; keepsRunning(c) {
			add(requests, c.Resources.Requests)
			add(limits, c.Resources.Limits)
		}
	}
	return stanzaSchema.Of(stanza{requests, limits})
}

// add adds amounts of the resources that VPAs scale.
func add(to, amounts corev1.ResourceList) {
	for _, name := range ScaledResources {
		if q, ok := amounts[name]; ok {
			q = q.DeepCopy()
			q.Add(to[name])
			to[name] = q
		}
	}
}
