package facts

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
