package model

import (
	"slices"
	"time"
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
