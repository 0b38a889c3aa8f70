package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxDeparted bounds the sets of labels without pods that keep usage of their own, per set of
// workloads that select them, and the containers that no pod of a set of labels has any more.
// Otherwise labels or containers that change all the time, or a Job every minute, would fill the
// memory.
const maxDeparted = 100

// maxCombined bounds the same per workload that governs them, whichever others select them too: ten
// workloads whose selectors overlap make a thousand sets of workloads. Usage beyond it is dropped.
const maxCombined = 5 * maxDeparted

// bound enforces maxDeparted. Workloads lose no usage: that of the oldest group moves to another
// group that the same workloads select. Without any workload it is dropped.
func (n *namespace) bound() {
	departed := map[string][]*group{}
	for _, g := range n.groups {
		g.boundNames()
		if len(g.pods) == 0 {
			by := selectedBy(g)
			departed[by] = append(departed[by], g)
		}
	}
	left := map[*Workload][]*group{} // by the workload that governs them
	for _, groups := range departed {
		if len(groups) > maxDeparted {
			slices.SortFunc(groups, earlier)
			kept := len(groups) - maxDeparted
			for _, g := range groups[:kept] {
				if len(g.workloads) > 0 {
					groups[kept].absorb(g)
				}
				n.remove(g)
			}
			groups = groups[kept:]
		}
		if w := groups[0].governor(); w != nil {
			left[w] = append(left[w], groups...)
		}
	}
	for _, groups := range left {
		if len(groups) > maxCombined {
			slices.SortFunc(groups, earlier)
			for _, g := range groups[:len(groups)-maxCombined] {
				n.remove(g)
			}
		}
	}
}

// earlier orders groups by their last sample.
func earlier(a, b *group) int {
	return cmp.Or(a.lastSample().Compare(b.lastSample()), strings.Compare(a.key, b.key))
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

// absorb adds the usage of another group, which stays unchanged. Containers beyond as many names as
// there may be groups are dropped: names may change all the time, too.
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
