package model

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Tidy drops the usage that nothing refers to, and bounds what is left of pods and containers that are
// gone. Call it in each cycle: until the next call, each workload that comes and goes adds to it.
func (c *Cluster) Tidy(now time.Time) {
	selecting := c.lastSelecting()
	for name, n := range c.namespaces {
		n.forgetUnused(now, c.unusedGrace, selecting[name])
		n.bound(selecting[name])
		if len(n.groups)+len(n.asking)+len(n.others) == 0 {
			delete(c.namespaces, name)
		}
	}
}

// lastSelecting are the workloads by namespace whose selector is unknown at the moment: pods that they
// selected, or will select, may be theirs again.
func (c *Cluster) lastSelecting() map[string][]*Workload {
	out := map[string][]*Workload{}
	for id, w := range c.workloads {
		if w.selector == nil {
			out[id.Namespace] = append(out[id.Namespace], w)
		}
	}
	return out
}

// forgetUnused drops the groups that no pod and no workload has used for longer than grace.
func (n *namespace) forgetUnused(now time.Time, grace time.Duration, unknown []*Workload) {
	for _, g := range n.groups {
		switch {
		case len(g.pods) > 0 || len(g.workloads) > 0 || g.mayBelongTo(unknown):
			g.unusedSince = time.Time{}
		case g.unusedSince.IsZero():
			g.unusedSince = now
		case now.Sub(g.unusedSince) >= grace:
			n.remove(g)
		}
	}
}

// mayBelongTo reports whether a workload had selected the group when its selector was known last, or
// whether that was never known.
func (g *group) mayBelongTo(workloads []*Workload) bool {
	return slices.ContainsFunc(workloads, func(w *Workload) bool { return w.last == nil || w.last.Matches(g.labels) })
}

// boundNames drops the usage of the containers that no pod of the group has, beyond the last
// maxDeparted: pods of the same labels may have other containers each time.
func (g *group) boundNames() {
	if len(g.aggregates) <= maxDeparted {
		return
	}
	var departed []string
	for name := range g.aggregates {
		if !g.has(name) {
			departed = append(departed, name)
		}
	}
	if len(departed) <= maxDeparted {
		return
	}
	slices.SortFunc(departed, func(a, b string) int {
		return cmp.Or(g.aggregates[a].last().Compare(g.aggregates[b].last()), strings.Compare(a, b))
	})
	for _, name := range departed[:len(departed)-maxDeparted] {
		delete(g.aggregates, name)
		g.touch(name)
	}
}
