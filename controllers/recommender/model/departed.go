package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxDeparted is how many sets of labels that no pod has any more keep usage of their own, of those that the same workloads
// select. Whoever changes labels or containers of a pod all the time, or runs a Job a minute, would else fill the memory.
const maxDeparted = 100

// bound keeps to maxDeparted. What workloads know stays the same: the usage of the oldest goes to another group that the same
// workloads select. Without any workload it is forgotten.
func (n *namespace) bound() {
	departed := map[string][]*group{}
	for _, g := range n.groups {
		if len(g.pods) == 0 {
			by := selectedBy(g)
			departed[by] = append(departed[by], g)
		}
	}
	for _, groups := range departed {
		if len(groups) <= maxDeparted {
			continue
		}
		slices.SortFunc(groups, func(a, b *group) int {
			return cmp.Or(a.lastSample().Compare(b.lastSample()), strings.Compare(a.key, b.key))
		})
		kept := len(groups) - maxDeparted
		for _, g := range groups[:kept] {
			if len(g.workloads) > 0 {
				groups[kept].absorb(g)
			}
			n.remove(g)
		}
	}
}

// selectedBy names the workloads of a group.
func selectedBy(g *group) string {
	var names strings.Builder
	for _, w := range g.workloads {
		names.WriteString(w.ID.Name)
		names.WriteByte('/')
	}
	return names.String()
}

// lastSample is when any container of the group was sampled last.
func (g *group) lastSample() (last time.Time) {
	for _, a := range g.aggregates {
		if a.LastSample.After(last) {
			last = a.LastSample
		}
	}
	return last
}

// absorb adds the usage of another group, which is left as it is. Containers of more names than there are groups are forgotten:
// names may change all the time, too.
func (g *group) absorb(other *group) {
	for _, name := range slices.Sorted(maps.Keys(other.aggregates)) {
		from := other.aggregates[name]
		switch to := g.aggregates[name]; {
		case to != nil:
			to.merge(from)
		case len(g.aggregates) < maxDeparted:
			g.aggregates[name] = from
		default:
			g.touch(name)
		}
	}
}
