package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Aggregates counts the containers with distinct names and pod labels whose usage is kept.
func (c *Cluster) Aggregates() int {
	count := 0
	for _, n := range c.namespaces {
		for _, g := range n.groups {
			count += len(g.aggregates)
		}
	}
	return count
}

// Newest is the time of the newest sample that was accepted of any container; zero without one.
func (c *Cluster) Newest() time.Time { return c.newest }

// CollectGarbage drops aggregates without samples that no pod feeds, and those whose last sample is
// older than all windows together (UPSTREAM.md §2.19). Restored history ends in the same way.
func (c *Cluster) CollectGarbage(now time.Time) {
	selecting := c.lastSelecting()
	for name, n := range c.namespaces {
		for _, g := range n.groups {
			c.collect(g, now)
			if len(g.pods) == 0 && len(g.aggregates) == 0 {
				n.remove(g)
			}
		}
		n.bound(selecting[name])
		if len(n.groups)+len(n.asking)+len(n.others) == 0 {
			delete(c.namespaces, name)
		}
	}
	for _, w := range c.workloads {
		for container, a := range w.restored {
			if a.expired(now) {
				delete(w.restored, container)
				delete(w.resuming, container)
				w.touch(container)
			}
		}
		for container := range w.revisions {
			if known, present := w.Has(container); !known && !present {
				delete(w.revisions, container)
			}
		}
	}
}

// collect drops the expired aggregates of a group. A container of a live pod gets a new one with
// its next sample: an empty one would be recommended the minimum, as upstream does without samples. Its
// memory window goes on, and gets the peak of the samples to come.
func (c *Cluster) collect(g *group, now time.Time) {
	dropped := map[string]bool{}
	for name, a := range g.aggregates {
		if (!a.known() && !g.feeds(name)) || a.expired(now) {
			delete(g.aggregates, name)
			g.touch(name)
			dropped[name] = true
		}
	}
	if len(dropped) == 0 {
		return
	}
	for _, p := range g.pods {
		for _, c := range p.containers {
			if dropped[c.name] && c.aggregate != nil {
				c.aggregate, c.expired = nil, c.aggregate
				c.losePeak()
			}
		}
	}
}

// feeds reports whether samples of a container may still come, or its pods still count for a
// workload.
func (g *group) feeds(container string) bool {
	return slices.ContainsFunc(g.pods, func(p *pod) bool {
		return (p.active || len(g.workloads) > 0) && p.container(container) != nil
	})
}

// absentWorkloads are the restored history of workloads that are not there: their VPAs were deleted, possibly with the CRD, and may be
// created again. Otherwise the first checkpoint of the new VPA would replace what is stored of months by what is known of minutes.
type absentWorkloads map[WorkloadID]*Workload

// keep keeps a workload that is deleted, if there is something to keep.
func (a absentWorkloads) keep(w *Workload) {
	if len(w.restored) > 0 {
		a[w.ID] = w
	}
}

// take returns a workload that is created, with what was kept of it.
func (a absentWorkloads) take(id WorkloadID, order facts.Order, target string) *Workload {
	w := a[id]
	if w == nil {
		return &Workload{ID: id, order: order, target: target, changed: true}
	}
	delete(a, id)
	w.changed = true
	if w.target == "" { // only its checkpoint was known
		w.target = target
	}
	return w
}

// RestoreGone keeps the checkpoint of a container for a workload that is not there yet.
func (c *Cluster) RestoreGone(id WorkloadID, container string, from *vpav1.VerticalPodAutoscalerCheckpointStatus, now time.Time) error {
	w := c.absent[id]
	if w == nil {
		w = &Workload{ID: id}
	}
	if err := w.Restore(c.window, container, from, now); err != nil {
		return err
	}
	c.absent[id] = w
	return nil
}

// Gone are the workloads that are not there and of which something is kept.
func (c *Cluster) Gone() map[WorkloadID]bool {
	out := make(map[WorkloadID]bool, len(c.absent))
	for id := range c.absent {
		out[id] = true
	}
	return out
}

// ForgetGone drops what is kept of workloads that are not there. Call it when their checkpoints are deleted.
func (c *Cluster) ForgetGone(ids map[WorkloadID]bool) {
	for id := range ids {
		delete(c.absent, id)
	}
}

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
