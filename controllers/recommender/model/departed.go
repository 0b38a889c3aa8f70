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

// maxCombined bounds the same per workload that comes first of them, whichever others select them too:
// ten workloads whose selectors overlap make a thousand sets of workloads. Usage beyond it is dropped.
const maxCombined = 5 * maxDeparted

// bound enforces maxDeparted. Workloads lose no usage: that of the oldest group moves to another
// group that the same workloads select, or selected last while their selectors are unknown. Usage that
// is no workload's is dropped: whose selector was never known may select any part of it.
func (n *namespace) bound(unknown []*Workload) {
	var all []*group
	for _, g := range n.groups {
		g.boundNames()
		if len(g.pods) == 0 {
			all = append(all, g)
		}
	}
	if len(all) <= maxDeparted {
		return
	}
	departed, owners := map[string][]*group{}, map[string][]*Workload{}
	for _, g := range all {
		of := g.owners(unknown)
		by := names(of)
		departed[by], owners[by] = append(departed[by], g), of
	}
	left := map[*Workload][]*group{} // by the first of their owners
	for by, groups := range departed {
		if len(groups) > maxDeparted {
			slices.SortFunc(groups, earlier)
			kept := len(groups) - maxDeparted
			for _, g := range groups[:kept] {
				if by != "" {
					groups[kept].absorb(g)
				}
				n.remove(g)
			}
			groups = groups[kept:]
		}
		if by != "" {
			first := owners[by][0]
			left[first] = append(left[first], groups...)
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

// owners are the workloads that select the group, and those of unknown that selected it last, in order.
func (g *group) owners(unknown []*Workload) []*Workload {
	out := g.workloads
	for _, w := range unknown {
		if w.last != nil && w.last.Matches(g.labels) {
			i, _ := slices.BinarySearchFunc(out, w, inOrder)
			out = slices.Insert(slices.Clone(out), i, w)
		}
	}
	return out
}

// earlier orders groups by their last sample.
func earlier(a, b *group) int {
	return cmp.Or(a.lastSample().Compare(b.lastSample()), strings.Compare(a.key, b.key))
}

// names identifies a set of workloads; that of none is empty.
func names(workloads []*Workload) string {
	var out strings.Builder
	for _, w := range workloads {
		out.WriteString(w.ID.Name)
		out.WriteByte('/')
	}
	return out.String()
}

// lastSample is when any container of the group was sampled last.
func (g *group) lastSample() (last time.Time) {
	for _, a := range g.aggregates {
		last = latest(last, a.last())
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
