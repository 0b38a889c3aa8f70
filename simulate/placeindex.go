package simulate

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/simulate/manifests"
)

// placedIndex finds the workloads of a namespace that a pod may belong to, so that a pod is not
// compared with every workload. All its lists are in the order of the placement.
type placedIndex struct {
	byName  map[string][]*placed
	long    []*placed            // those whose pods' names have only a part of their own
	byLabel map[string][]*placed // by the first label of their template
}

// byNamespace indexes the workloads of each namespace, and numbers them all.
func byNamespace(workloads []*placed) map[string]*placedIndex {
	of := map[string][]*placed{}
	for i, w := range workloads {
		w.order = i
		of[w.Namespace] = append(of[w.Namespace], w)
	}
	out := make(map[string]*placedIndex, len(of))
	for namespace, list := range of {
		out[namespace] = newPlacedIndex(list)
	}
	return out
}

// newPlacedIndex indexes workloads. Stand-ins have labels of their own, which no pod in manifests has.
func newPlacedIndex(workloads []*placed) *placedIndex {
	x := &placedIndex{byName: map[string][]*placed{}, byLabel: map[string][]*placed{}}
	for _, w := range workloads {
		x.byName[w.Name] = append(x.byName[w.Name], w)
		if manifests.IsLong(w.Name) {
			x.long = append(x.long, w)
		}
		if labels := slices.Sorted(maps.Keys(w.Template.Labels)); len(labels) > 0 && !w.standIn {
			first := labels[0] + "=" + w.Template.Labels[labels[0]]
			x.byLabel[first] = append(x.byLabel[first], w)
		}
	}
	return x
}

// made is the workload of a kind and a name, in the manifests or with pods.
func (x *placedIndex) made(kind, name string) *placed {
	if x == nil {
		return nil
	}
	return first(x.byName[name], func(w *placed) bool { return w.Kind == kind && (!w.standIn || w.any()) })
}

// named is the first workload that fits, of those with a name that the name of a pod begins with.
func (x *placedIndex) named(pod string, fits func(*placed) bool) *placed {
	if x == nil {
		return nil
	}
	if w := first(x.long, fits); w != nil {
		return w
	}
	for name := range beginnings(pod) {
		if w := first(x.byName[name], fits); w != nil {
			return w
		}
	}
	return nil
}

// labelled is the first workload that fits, of those whose template has one of some labels.
func (x *placedIndex) labelled(labels map[string]string, fits func(*placed) bool) (best *placed) {
	if x == nil {
		return nil
	}
	for name, value := range labels {
		w := first(x.byLabel[name+"="+value], fits)
		if w != nil && (best == nil || cmp.Less(w.order, best.order)) {
			best = w
		}
	}
	return best
}

// beginnings are a name and its parts up to a hyphen, the longest first.
func beginnings(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], '-') {
			if !yield(name[:end]) {
				return
			}
		}
	}
}
