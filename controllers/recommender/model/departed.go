package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxDeparted bounds the sets of labels without pods that keep usage of their own, per set of
// workloads that select them. Otherwise labels or containers that change all the time, or a Job
// every minute, would fill the memory.
const maxDeparted = 100

// bound enforces maxDeparted. Workloads lose no usage: that of the oldest group moves to another
// group that the same workloads select. Without any workload it is dropped.
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
