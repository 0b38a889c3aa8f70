package facts

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/engine"
)

// LimitRanges is what all LimitRanges of a namespace say together. It may be shared and is never changed.
type LimitRanges struct {
	record       *engine.Record
	ofContainers []string // names of those of type Container, whatever they are about; sorted
}

// FoldLimitRanges folds the LimitRanges of one namespace (UPSTREAM.md §3.4): the highest minimum, the lowest maximum, and
// the default of the last by name that has limits of the type. Other resources than CPU and memory do not count.
func FoldLimitRanges(list []corev1.LimitRange) *LimitRanges {
	sorted := make([]*corev1.LimitRange, len(list))
	for i := range list {
		sorted[i] = &list[i]
	}
	slices.SortFunc(sorted, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	out := &LimitRanges{record: limitRangesSchema.New()}
	for _, one := range sorted {
		for i := range one.Spec.Limits {
			item := &one.Spec.Limits[i]
			switch item.Type {
			case corev1.LimitTypeContainer:
				if !slices.Contains(out.ofContainers, one.Name) {
					out.ofContainers = append(out.ofContainers, one.Name)
				}
				out.add("container", item)
			case corev1.LimitTypePod:
				out.add("pod", item)
			}
		}
	}
	return out
}

func (l *LimitRanges) add(name string, item *corev1.LimitRangeItem) {
	if item.Max == nil && item.Min == nil && item.Default == nil {
		return
	}
	so, _ := l.record.Get(name).(*engine.Record)
	if so == nil {
		so = limitRangeSchema.New()
		for _, field := range limitRangeSchema.Fields() {
			so.SetRecord(field.Name, resourcesSchema.New())
		}
		l.record.SetRecord(name, so)
	}
	keep := func(field string, list corev1.ResourceList, better func(a, b int64) bool) {
		into := so.Get(field).(*engine.Record)
		for _, resource := range ScaledResources {
			q, ok := list[resource]
			if !ok {
				continue
			}
			n := AmountOf(resource, q)
			if before, set := into.Int(string(resource)); !set || better(n, before) {
				into.SetInt(string(resource), n)
			}
		}
	}
	keep("min", item.Min, func(a, b int64) bool { return a > b })
	keep("max", item.Max, func(a, b int64) bool { return a < b })
	if item.Default != nil {
		so.SetRecord("default", Resources(item.Default))
	}
}

// bind gives the record that rules read; nil says nothing about anything.
func (l *LimitRanges) bind() *engine.Record {
	if l == nil {
		return limitRangesSchema.New()
	}
	return l.record
}
