// Package model holds the usage history of containers: decaying histograms, one memory peak per
// window, and their aggregation over the pods of a workload (UPSTREAM.md §2.7–2.13). Numbers match
// upstream's to the digit.
//
// It holds no policy: the model answers what was used, the rules decide what follows.
package model

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
)

// Cluster holds all workloads, their pods and their usage. It belongs to one goroutine.
type Cluster struct {
	unusedGrace time.Duration
	window      facts.Window // of pods that belong to no workload
	pods        map[PodID]*pod
	workloads   map[WorkloadID]*Workload
	absent      absentWorkloads
	namespaces  map[string]*namespace
	newest      time.Time // of all samples that were accepted

	excess Excess

	// Unread: checkpoints are read later. The first CPU sample of each container may be in them, so
	// Continue adds it.
	Unread bool
	early  []*earlySample

	// Observe, if set, is called for each accepted sample, with the workload whose policies govern
	// the container. made is true for a sample that stands for an OOM.
	Observe func(w *Workload, s Sample, made bool)
}

// NewCluster returns an empty model. unusedGrace is how long Tidy keeps the usage of pods that are gone while no
// workload selects their labels; 0 = not at all.
func NewCluster(unusedGrace time.Duration) *Cluster {
	return &Cluster{unusedGrace: unusedGrace, window: facts.DefaultWindow(), pods: map[PodID]*pod{}, workloads: map[WorkloadID]*Workload{}, absent: absentWorkloads{}, namespaces: map[string]*namespace{}}
}

// SetWindow sets the window of containers without a workload: a VPA may be added later.
func (c *Cluster) SetWindow(w facts.Window) {
	if c.window == w {
		return
	}
	c.window = w
	for _, n := range c.namespaces {
		for _, g := range n.groups {
			for _, a := range g.aggregates {
				if a.WindowFrom == 0 {
					a.Govern(w, 0)
				}
			}
		}
	}
}

// Window is that of containers without a workload.
func (c *Cluster) Window() facts.Window { return c.window }

func (c *Cluster) namespace(name string) *namespace {
	n := c.namespaces[name]
	if n == nil {
		n = newNamespace()
		c.namespaces[name] = n
	}
	return n
}

// SetWorkload adds or updates a workload: the pods that selector matches, nil = unknown. Among
// workloads that select the same pods the first by order governs. Restored history is dropped when
// the target or its selector changes, but not while the selector is unknown, nor when the workload
// was deleted and created again before ForgetGone (UPSTREAM.md §2.5, Appendix B 10).
func (c *Cluster) SetWorkload(id WorkloadID, order facts.Order, target string, selector labels.Selector) *Workload {
	w := c.workloads[id]
	if w == nil {
		w = c.absent.take(id, order, target)
		c.workloads[id] = w
	}
	if w.order != order {
		c.forget(w) // its order among those that select the same pods has changed
		w.order = order
	}
	if w.target != target {
		c.forget(w)
		w.target, w.restored, w.resuming, w.chosen, w.last = target, nil, nil, nil, nil
	}
	if selector == nil {
		c.forget(w)
		return w
	}
	text := selector.String()
	same := w.chosen != nil && *w.chosen == text
	if w.selector != nil && same {
		return w
	}
	if w.chosen != nil && !same {
		w.restored, w.resuming = nil, nil
	}
	c.forget(w)
	w.selector, w.last, w.chosen, w.changed = selector, selector, &text, true
	c.namespace(id.Namespace).choose(w)
	return w
}

// forget takes a workload's pods from it.
func (c *Cluster) forget(w *Workload) {
	if w.selector != nil {
		c.namespace(w.ID.Namespace).leave(w)
		w.selector, w.changed = nil, true
	}
}

// KeepWorkloads drops the workloads that are not in keep. What was restored for them is kept until
// ForgetGone.
func (c *Cluster) KeepWorkloads(keep map[WorkloadID]bool) {
	for id, w := range c.workloads {
		if !keep[id] {
			c.forget(w)
			delete(c.workloads, id)
			c.absent.keep(w)
		}
	}
}

// Workload finds a workload, nil = unknown.
func (c *Cluster) Workload(id WorkloadID) *Workload { return c.workloads[id] }

// Selected reports whether a workload selects pods of these labels.
func (c *Cluster) Selected(namespaceName string, set labels.Set) bool {
	n := c.namespaces[namespaceName]
	if n == nil {
		return false
	}
	found := false
	n.eachSelecting(set, func(*Workload) bool {
		found = true
		return false
	})
	return found
}

// HasPod reports whether a pod is known, and whether it is known as it is in this version.
func (c *Cluster) HasPod(id PodID, version string) (known, same bool) {
	p := c.pods[id]
	return p != nil, p != nil && version != "" && p.version == version
}

// SetPod adds or updates a pod. A change of labels moves its containers to other aggregates.
func (c *Cluster) SetPod(id PodID, spec PodSpec, now time.Time) {
	p := c.pods[id]
	if p == nil {
		p = &pod{id: id}
		c.pods[id] = p
	} else {
		p.leave()
	}
	before := p.group
	set := labels.Set(spec.Labels)
	p.version, p.created, p.active, p.init = spec.Version, spec.Created, spec.Active, spec.InitContainers
	p.spec.cpu, p.spec.memory = spec.CPURequest, spec.MemoryRequest
	var fresh []*container
	p.containers, fresh = p.with(spec.Containers)
	for i, c := range p.containers {
		c.requests, c.limits = facts.Amounts{}, facts.Amounts{}
		if i < len(spec.Requests) && i < len(spec.Limits) {
			c.requests, c.limits = spec.Requests[i], spec.Limits[i]
		}
	}
	p.join(c.namespace(id.Namespace).group(set, set.String()))
	if p.group != before {
		fresh = p.containers
	}
	for _, pod := range fresh {
		c.reconnect(p, pod, before, now)
	}
}

// KeepPods drops the pods that are not in keep; their usage stays in the aggregates.
func (c *Cluster) KeepPods(keep map[PodID]bool) {
	for id, p := range c.pods {
		if keep[id] {
			continue
		}
		p.leave()
		delete(c.pods, id)
		for _, c := range p.containers {
			if c.counted { // from now on the checkpoint holds the peak of its last window
				p.group.touch(c.name)
			}
		}
	}
}

// AddSample records a sample of a container that SetPod named.
func (c *Cluster) AddSample(s Sample, now time.Time) Taken {
	p, container, taken := c.find(s.Pod, s.Container, s.At, now)
	if container == nil {
		return taken
	}
	if most, ok := Plausible(c.windowOf(p, container), s.Resource, s.Amount); !ok {
		c.excess.Add(s, most)
		return Implausible
	}
	if taken = container.judgeSample(s); taken != Accepted {
		return taken
	}
	changed := true
	c.begin(p, container, now)
	switch {
	case s.Resource == CPU && c.Unread && container.lastCPUSample.IsZero():
		container.lastCPUSample, container.lastCPU, changed = s.At, s.Amount, false
		container.early = &earlySample{container: container.name, milli: s.Amount, at: s.At, of: container.aggregate, group: p.group}
		c.early = append(c.early, container.early)
	case s.Resource == CPU:
		container.addCPU(s.Amount, s.At)
	default:
		changed = container.addMemory(s.Amount, s.At, false)
	}
	c.took(p, s, changed, false)
	return Accepted
}

// AddOOM records that a container ran out of memory, as a memory sample that bump computes from the
// reported memory and the largest sample of the window (0 = none), given the workload whose
// policies govern, nil without one. bump returns false for an OOM without effect.
func (c *Cluster) AddOOM(o OOM, now time.Time, bump func(w *Workload, reported, peak int64) (bytes int64, ok bool)) Taken {
	p, container, taken := c.find(o.Pod, o.Container, o.At, now)
	if container == nil {
		return taken
	}
	if _, stored := container.judged(); !o.At.After(stored) {
		return Old
	}
	if container.judge(o.At); container.aggregate.known() {
		p.group.touch(o.Container)
	}
	window := c.windowOf(p, container)
	if container.tooOld(o.At, window.Interval) || (o.Late && now.Sub(o.At) >= window.Interval) {
		return Old
	}
	if most, ok := Plausible(window, Memory, o.Memory); !ok {
		c.excess.Add(Sample{Pod: o.Pod, Container: o.Container, Resource: Memory, Amount: o.Memory, At: o.At}, most)
		return Implausible
	}
	bytes, ok := bump(p.group.governor(), o.Memory, container.memoryPeak)
	switch {
	case !ok:
		return Disabled
	case bytes < 0:
		return Negative
	}
	c.begin(p, container, now)
	changed := container.addMemory(bytes, o.At, true)
	c.took(p, Sample{Pod: o.Pod, Container: o.Container, Resource: Memory, Amount: bytes, At: o.At}, changed, true)
	return Accepted
}

// Governor is the workload whose policies govern a pod, nil without one.
func (c *Cluster) Governor(id PodID) *Workload {
	if p := c.pods[id]; p != nil {
		return p.group.governor()
	}
	return nil
}

// find finds the container of a sample, or the reason why there is none.
func (c *Cluster) find(id PodID, name string, at, now time.Time) (*pod, *container, Taken) {
	p := c.pods[id]
	if p == nil {
		return nil, nil, Unknown
	}
	known := p.container(name)
	switch {
	case known == nil && slices.Contains(p.init, name):
		return nil, nil, Init
	case known == nil:
		return nil, nil, Unknown
	case at.IsZero():
		return nil, nil, Old
	case at.After(now.Add(c.windowOf(p, known).ClockSkew)):
		return nil, nil, Future
	}
	return p, known, Accepted
}

// windowOf is the window of a container: its aggregate's, or after that has expired, that of the one
// which its next sample will join or begin.
func (c *Cluster) windowOf(p *pod, one *container) facts.Window {
	a := one.aggregate
	if a == nil {
		a = p.group.aggregates[one.name]
	}
	if a == nil {
		a = one.expired
	}
	if a == nil {
		return c.window
	}
	return a.Window
}

// took records a sample that was accepted.
func (c *Cluster) took(p *pod, s Sample, changed, made bool) {
	if s.At.After(c.newest) {
		c.newest = s.At
	}
	if changed {
		p.group.touch(s.Container)
	}
	if c.Observe != nil {
		if w := p.group.governor(); w != nil {
			c.Observe(w, s, made)
		}
	}
}

// governor is the first workload that selects the group, nil when none does.
func (g *group) governor() *Workload {
	if len(g.workloads) == 0 {
		return nil
	}
	return g.workloads[0]
}
