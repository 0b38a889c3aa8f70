package facts

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/poddefaults"
	"github.com/celvpa/celvpa/engine/lang"
)

// LimitRanges folds all LimitRanges of a namespace. It is shared and immutable.
type LimitRanges struct {
	record *lang.Record
	items  []corev1.LimitRangeItem // of containers and pods
	// Defaults for containers, of the first LimitRange by name that has one.
	defaultRequests, defaultLimits corev1.ResourceList
	ofContainers                   []string // LimitRanges of type Container; sorted
}

// FoldLimitRanges folds the LimitRanges of one namespace (UPSTREAM.md §3.4): the highest minimum,
// the lowest maximum, and the default of the last by name that has limits of the type. The lowest
// maxLimitRequestRatio, which upstream does not read, is kept beside them. Only CPU and memory
// count.
func FoldLimitRanges(list []corev1.LimitRange) *LimitRanges {
	sorted := make([]*corev1.LimitRange, len(list))
	for i := range list {
		sorted[i] = &list[i]
	}
	slices.SortFunc(sorted, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	out := &LimitRanges{record: limitRangesSchema.New()}
	for _, limitRange := range sorted {
		for i := range limitRange.Spec.Limits {
			item := &limitRange.Spec.Limits[i]
			switch item.Type {
			case corev1.LimitTypeContainer:
				out.items = append(out.items, *item)
				if !slices.Contains(out.ofContainers, limitRange.Name) {
					out.ofContainers = append(out.ofContainers, limitRange.Name)
				}
				out.add("container", item)
			case corev1.LimitTypePod:
				out.items = append(out.items, *item)
				out.add("pod", item)
			}
		}
	}
	out.defaultRequests, out.defaultLimits = poddefaults.OfContainers(list)
	return out
}

func (l *LimitRanges) add(name string, item *corev1.LimitRangeItem) {
	l.addMaxRatio(name, item.MaxLimitRequestRatio)
	if item.Max == nil && item.Min == nil && item.Default == nil {
		return
	}
	so, _ := l.record.Field(name).(*lang.Record)
	if so == nil {
		so = limitRangeSchema.New()
		for _, field := range limitRangeSchema.Fields() {
			so.SetRecord(field.Name, resourcesSchema.New())
		}
		l.record.SetRecord(name, so)
	}
	keep := func(field string, list corev1.ResourceList, better func(a, b int64) bool) {
		into := so.Field(field).(*lang.Record)
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

// addMaxRatio keeps ratios in thousandths, rounded up, as LimitRanger compares them.
func (l *LimitRanges) addMaxRatio(name string, list corev1.ResourceList) {
	for _, resource := range ScaledResources {
		q, ok := list[resource]
		if !ok {
			continue
		}
		byType := recordIn(l.record, "maxLimitRequestRatio", maxRatiosByTypeSchema)
		into := recordIn(byType, name, maxRatiosSchema)
		n := held(q, apiresource.Milli)
		if before, set := into.Int(string(resource)); !set || n < before {
			into.SetInt(string(resource), n)
		}
	}
}

// recordIn returns a field of a record, which it sets if it is unset.
func recordIn(r *lang.Record, field string, schema *lang.Schema) *lang.Record {
	so, _ := r.Field(field).(*lang.Record)
	if so == nil {
		so = schema.New()
		r.SetRecord(field, so)
	}
	return so
}

// Defaulted names, separated by commas, the containers that a resize would give defaults: the
// LimitRanger plugin treats a resize like a new pod. Empty = none.
func (l *LimitRanges) Defaulted(pod *corev1.Pod, change PodChange) string {
	if l == nil || len(l.defaultLimits)+len(l.defaultRequests) == 0 {
		return ""
	}
	var names []string
	lacks := func(name string, r corev1.ResourceRequirements) {
		missing := func(all, list corev1.ResourceList) bool {
			for resource := range all {
				if _, there := list[resource]; !there {
					return true
				}
			}
			return false
		}
		if missing(l.defaultLimits, r.Limits) || missing(l.defaultRequests, r.Requests) {
			names = append(names, name)
		}
	}
	for i := range change.Containers {
		c := &change.Containers[i]
		lacks(c.Name, with(&pod.Spec.Containers[c.Index].Resources, &c.ResourceChange))
	}
	for i := range pod.Spec.InitContainers {
		lacks(pod.Spec.InitContainers[i].Name, pod.Spec.InitContainers[i].Resources)
	}
	return strings.Join(names, ", ")
}

// bind returns the record for rules; a nil receiver sets nothing.
func (l *LimitRanges) bind() *lang.Record {
	if l == nil {
		return limitRangesSchema.Empty()
	}
	return l.record
}
