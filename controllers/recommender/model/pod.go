package model

import (
	"slices"
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
)

// PodSpec is what the model needs of a pod.
type PodSpec struct {
	Labels         map[string]string
	Containers     []string
	InitContainers []string
	// Requests and Limits are those of Containers, in their order; empty = not known.
	Requests, Limits []facts.Amounts
	Active           bool   // neither succeeded nor failed
	Version          string // changes with everything else; empty = unknown
	Created          time.Time
	// The pod has requests of its own, beside those of its containers (AEP-7571).
	CPURequest, MemoryRequest bool
}

type pod struct {
	id         PodID
	group      *group
	version    string
	created    time.Time
	containers []*container
	init       []string // init containers: their samples are dropped
	active     bool     // neither succeeded nor failed
	spec       struct{ cpu, memory bool }
}

func (p *pod) container(name string) *container {
	for _, c := range p.containers {
		if c.name == name {
			return c
		}
	}
	return nil
}

// with returns the containers of these names, with their state if the pod had them before, and
// which of them are new.
func (p *pod) with(names []string) (all, fresh []*container) {
	all = make([]*container, 0, len(names))
	for _, name := range names {
		known := p.container(name)
		if known == nil {
			known = &container{name: name}
			fresh = append(fresh, known)
		}
		all = append(all, known)
	}
	return all, fresh
}

// connect gives a container the aggregate of its group.
func (c *Cluster) connect(p *pod, one *container, now time.Time) {
	a := p.group.aggregates[one.name]
	if a == nil {
		a = newAggregate(c.window, now)
		if one.expired != nil {
			a.Govern(one.expired.Window, one.expired.WindowFrom)
			one.expired = nil
		}
		p.group.aggregates[one.name] = a
		p.group.changed()
	}
	one.aggregate = a
}

// begin connects a container whose aggregate has expired. Only a sample that is accepted does: an empty
// history would be recommended the minimum.
func (c *Cluster) begin(p *pod, one *container, now time.Time) {
	if one.aggregate == nil {
		c.connect(p, one, now)
	}
}

// reconnect gives a container the aggregate of its group, which may be another one than before. If the
// same workloads select both, the peak of the open memory window moves there, where a higher sample of
// the window will take its place. Otherwise the window has no peak yet, as for another pod: those that do
// not select it any more keep what it used.
func (c *Cluster) reconnect(p *pod, one *container, before *group, now time.Time) {
	from := one.aggregate
	c.connect(p, one, now)
	if from == nil || from == one.aggregate || !one.counted {
		return
	}
	if !slices.Equal(before.workloads, p.group.workloads) {
		one.losePeak()
		return
	}
	from.Memory.Subtract(float64(one.peak()), 1, one.windowEnd)
	one.aggregate.Memory.Add(float64(one.peak()), 1, one.windowEnd)
	one.aggregate.LastMemory = latest(one.aggregate.LastMemory, one.lastMemorySample)
	p.group.touch(one.name)
}

// join adds the pod to a group.
func (p *pod) join(g *group) {
	p.group = g
	g.pods = append(g.pods, p)
	g.tallyOf(p).add(p, 1)
	g.changed()
}

// leave removes the pod from its group.
func (p *pod) leave() {
	g := p.group
	i := slices.Index(g.pods, p)
	last := len(g.pods) - 1
	g.pods[i], g.pods[last] = g.pods[last], nil
	g.pods = g.pods[:last]
	g.tallyOf(p).add(p, -1)
	g.changed()
}

// Live is the newest usage of a container of one pod.
type Live struct {
	Pod string
	// Active: the pod has neither succeeded nor failed, so more samples may come.
	Active bool
	CPU    int64     // the last sample, milli-cores
	CPUAt  time.Time // zero = there is none
	// Memory is the measured peak of the last window, without OOMs, in bytes.
	Memory   int64
	MemoryAt time.Time // of the last sample; zero = there is none
	// Peak is what the histogram holds of the last window, and Ends when that ends.
	Peak   int64
	Ends   time.Time
	Window facts.Window
}

// Open reports whether the last window has not ended: no checkpoint's histogram holds it.
func (l *Live) Open(now time.Time) bool { return l.Peak > 0 && now.Before(l.Ends) }

// Live is the newest usage of the workload's pods, by container and in no order.
func (w *Workload) Live() map[string][]Live {
	out := map[string][]Live{}
	for _, g := range w.groups {
		for _, p := range g.pods {
			for _, c := range p.containers {
				if c.aggregate == nil { // it has expired
					continue
				}
				live := Live{
					Pod: p.id.Name, Active: p.active,
					Memory: max(c.memoryPeak, c.lastMemory), MemoryAt: c.lastMemorySample,
					Peak: c.peak(), Ends: c.windowEnd, Window: c.aggregate.Window,
				}
				if c.lastCPU >= 0 {
					live.CPU, live.CPUAt = c.lastCPU, c.lastCPUSample
				}
				out[c.name] = append(out[c.name], live)
			}
		}
	}
	return out
}

// Clone is a copy of a view that later samples do not change.
func (v View) Clone() View {
	containers := make([]Usage, len(v.Containers))
	for i, u := range v.Containers {
		u.Aggregate = u.clone()
		containers[i] = u
	}
	v.Containers = containers
	return v
}

func (a *Aggregate) clone() *Aggregate {
	c := *a
	c.CPU, c.Memory = a.CPU.clone(), a.Memory.clone()
	if a.recent != nil {
		r := *a.recent
		c.recent = &r
	}
	return &c
}
