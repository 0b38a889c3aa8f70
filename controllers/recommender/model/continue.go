package model

import (
	"slices"
	"time"
)

// Continue gives the containers of pods the state that checkpoints hold of them. Call it when pods
// are known; for workloads whose selector is unknown it does nothing yet.
func (c *Cluster) Continue(now time.Time) {
	var waiting []*Workload
	for _, w := range c.workloads {
		if len(w.resuming) > 0 && w.selector != nil {
			waiting = append(waiting, w)
		}
	}
	slices.SortFunc(waiting, inOrder) // those that govern come first
	for _, w := range waiting {
		for _, container := range w.Containers() {
			if r := w.resuming[container]; r != nil {
				c.resume(w, container, r, now)
			}
		}
		w.resuming, w.changed = nil, true
	}
	for _, s := range c.early {
		if !s.stored {
			s.of.addCPU(s.milli, s.at)
			s.group.touch(s.container)
		}
	}
	c.early = nil
}

// earlySample is the first CPU sample of a container, which was read before the checkpoints.
type earlySample struct {
	container string
	milli     int64
	at        time.Time
	of        *Aggregate
	group     *group
	stored    bool // in a checkpoint
}

// resume gives the pods of a workload what a checkpoint holds of their containers of a name. What it
// holds of others becomes part of the restored history.
func (c *Cluster) resume(w *Workload, name string, r *resumption, now time.Time) {
	restored := w.restored[name]
	named := map[string]*resumed{}
	for i := range r.pods {
		e := &r.pods[i]
		named[e.pod] = e
		p := c.pods[PodID{Namespace: w.ID.Namespace, Name: e.pod}]
		var known *container
		if p != nil && !p.created.After(r.written) && slices.Contains(p.group.workloads, w) {
			known = p.container(name)
		}
		switch {
		case known != nil && p.group.governor() == w:
			c.begin(p, known, now)
			known.resume(e, restored)
		case known != nil && known.windowEnd.Equal(e.windowEnd): // the workload that governs has given it
			if e.counted && e.stored {
				restored.Memory.Subtract(float64(e.peak()), 1, e.windowEnd)
			}
		case e.counted && !e.stored:
			restored.Memory.Add(float64(e.peak()), 1, e.windowEnd)
		}
	}
	for _, g := range w.groups {
		if g.governor() != w {
			continue
		}
		for _, p := range g.pods {
			known := p.container(name)
			if known != nil && named[p.id.Name] == nil && !p.created.After(r.written) && known.lastCPUSample.IsZero() {
				known.lastCPUSample, known.lastCPU = r.others, -1
			}
		}
	}
}

// resume continues where a checkpoint was written. The container may have been sampled since: its
// window is then that of the checkpoint, unless all samples are later.
func (c *container) resume(e *resumed, restored *Aggregate) {
	if e.cpu.After(c.lastCPUSample) {
		c.lastCPUSample, c.lastCPU = e.cpu, -1
	}
	if c.early != nil {
		c.early.stored = !c.early.at.After(e.cpu)
	}
	c.resumed = true
	if !e.oom.IsZero() {
		c.judge(e.oom)
		c.ooms.stored = e.oom
	}
	if e.windowEnd.IsZero() {
		return
	}
	own := c.aggregate.Memory
	if !c.windowEnd.IsZero() && !c.lastMemorySample.Before(e.windowEnd) {
		if e.counted && !e.stored {
			restored.Memory.Add(float64(e.peak()), 1, e.windowEnd)
		}
		return
	}
	if c.counted {
		own.Subtract(float64(c.peak()), 1, c.windowEnd)
	}
	if e.counted && e.stored {
		restored.Memory.Subtract(float64(e.peak()), 1, e.windowEnd)
	}
	c.memoryPeak, c.oomPeak = max(c.memoryPeak, e.memoryPeak), max(c.oomPeak, e.oomPeak)
	if e.memory.After(c.lastMemorySample) {
		c.lastMemorySample, c.lastMemory, c.onlyOOM = e.memory, -1, false
	}
	c.windowEnd, c.counted = e.windowEnd, c.counted || e.counted
	if c.counted {
		own.Add(float64(c.peak()), 1, c.windowEnd)
		c.aggregate.LastMemory = latest(c.aggregate.LastMemory, c.lastMemorySample)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Resumed reports whether a checkpoint says which OOMs of a container were judged.
func (c *Cluster) Resumed(id PodID, name string) bool {
	p := c.pods[id]
	if p == nil {
		return false
	}
	known := p.container(name)
	return known != nil && known.resumed
}
