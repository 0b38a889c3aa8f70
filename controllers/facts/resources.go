package facts

import (
	corev1 "k8s.io/api/core/v1"

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
func ResourceList(r *lang.Record) corev1.ResourceList {
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

// given dereferences p; ok is false for nil.
func given[T any](p *T) (v T, ok bool) {
	if p == nil {
		return v, false
	}
	return *p, true
}
