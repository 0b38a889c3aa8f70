package model

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// maxSkew is how far ahead the clock of a source of samples may be. One sample of next year would make all samples until
// then old.
const maxSkew = time.Hour

// Cluster is the recommender's memory of all workloads, their pods and their usage. It belongs to one goroutine.
type Cluster struct {
	settings   Settings
	window     Window // of pods that belong to no workload
	pods       map[PodID]*pod
	workloads  map[WorkloadID]*Workload
	namespaces map[string]*namespace

	// Observe, when set, is told of each sample that is accepted, with the workload whose policies count for the container.
	// made is true for a sample that stands for an OOM.
	Observe func(w *Workload, s Sample, made bool)
}

// NewCluster returns an empty memory.
func NewCluster(s Settings) *Cluster {
	return &Cluster{settings: s, window: DefaultWindow(), pods: map[PodID]*pod{}, workloads: map[WorkloadID]*Workload{}, namespaces: map[string]*namespace{}}
}

// SetWindow sets the window of what no workload governs: a VPA may come for it later.
func (c *Cluster) SetWindow(w Window) {
	if c.window == w {
		return
	}
	c.window = w
	for _, n := range c.namespaces {
		for _, g := range n.groups {
			for _, a := range g.aggregates {
				if a.WindowFrom == nil {
					a.Window = w
				}
			}
		}
	}
}

// Settings are those that the cluster was made with.
func (c *Cluster) Settings() Settings { return c.settings }

func (c *Cluster) namespace(name string) *namespace {
	n := c.namespaces[name]
	if n == nil {
		n = newNamespace()
		c.namespaces[name] = n
	}
	return n
}

// SetWorkload adds or updates a workload: the pods that selector matches, nil for none that are known. Among workloads that
// select the same pods the oldest governs. What was restored from checkpoints is forgotten when the target or its selector
// becomes another, not while the selector is not known, nor when the workload was deleted and made again meanwhile
// (UPSTREAM.md §2.5, Appendix B 10).
func (c *Cluster) SetWorkload(id WorkloadID, created time.Time, target string, selector labels.Selector) *Workload {
	w := c.workloads[id]
	if w == nil {
		w = &Workload{ID: id, created: created, target: target, changed: true}
		c.workloads[id] = w
	}
	if !w.created.Equal(created) {
		c.forget(w) // it has another place among those of its age
		w.created = created
	}
	if w.target != target {
		c.forget(w)
		w.target, w.restored, w.chosen = target, nil, nil
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
		w.restored = nil
	}
	c.forget(w)
	w.selector, w.chosen, w.changed = selector, &text, true
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

// KeepWorkloads forgets the workloads that keep does not hold.
func (c *Cluster) KeepWorkloads(keep map[WorkloadID]bool) {
	for id, w := range c.workloads {
		if !keep[id] {
			c.forget(w)
			delete(c.workloads, id)
		}
	}
}

// Workload finds a workload, nil when it is not known.
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

// PodSpec is what the model needs to know of a pod.
type PodSpec struct {
	Labels         map[string]string
	Containers     []string
	InitContainers []string
	Active         bool   // neither succeeded nor failed
	Version        string // as long as it is the same, so is everything else; empty = unknown
	// The pod has requests of its own, beside those of its containers (AEP-7571).
	CPURequest, MemoryRequest bool
}

type pod struct {
	id         PodID
	group      *group
	version    string
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
	p.version, p.active, p.init = spec.Version, spec.Active, spec.InitContainers
	p.spec.cpu, p.spec.memory = spec.CPURequest, spec.MemoryRequest
	var fresh []*container
	p.containers, fresh = p.with(spec.Containers)
	p.join(c.namespace(id.Namespace).group(set, set.String()))
	if p.group != before {
		fresh = p.containers
	}
	for _, one := range fresh {
		c.connect(p, one, now)
	}
}

// with are containers of these names, with what is known of those that the pod had before, and which of them are new.
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
		a = newAggregate(c.settings, now)
		a.Window = c.window
		if one.expired != nil {
			a.Window, a.WindowFrom, one.expired = one.expired.Window, one.expired.WindowFrom, nil
		}
		p.group.aggregates[one.name] = a
		p.group.changed()
	}
	one.aggregate = a
}

// join makes the pod one of a group.
func (p *pod) join(g *group) {
	p.group = g
	g.pods = append(g.pods, p)
	g.count(p, 1)
	g.changed()
}

// leave takes the pod from its group.
func (p *pod) leave() {
	g := p.group
	i := slices.Index(g.pods, p)
	last := len(g.pods) - 1
	g.pods[i], g.pods[last] = g.pods[last], nil
	g.pods = g.pods[:last]
	g.count(p, -1)
	g.changed()
}

// count adds a pod to what the group counts, or takes it off.
func (g *group) count(p *pod, by int) {
	for _, one := range p.containers {
		if g.running[one.name] += by; g.running[one.name] == 0 {
			delete(g.running, one.name)
		}
	}
	if p.spec.cpu {
		g.podCPU += by
	}
	if p.spec.memory {
		g.podMemory += by
	}
}

// KeepPods forgets the pods that keep does not hold; their usage stays in the aggregates.
func (c *Cluster) KeepPods(keep map[PodID]bool) {
	for id, p := range c.pods {
		if keep[id] {
			continue
		}
		p.leave()
		delete(c.pods, id)
		for _, one := range p.containers {
			if one.peak() > 0 { // from now on the checkpoint holds the peak of its last window
				p.group.touch(one.name)
			}
		}
	}
}

// AddSample records a sample of a container that SetPod named.
func (c *Cluster) AddSample(s Sample, now time.Time) Taken {
	p, one, taken := c.find(s.Pod, s.Container, s.At, now)
	if one == nil {
		return taken
	}
	changed := true
	if s.Resource == CPU {
		taken = one.addCPU(s.Amount, s.At)
	} else {
		taken, changed = one.addMemory(s.Amount, s.At, false)
	}
	c.took(p, s, taken, changed, false)
	return taken
}

// AddOOM records that a container ran out of memory, as the memory sample that bump makes of it: from what was reported and
// the largest sample of the window (0 = none), given the workload whose policies count, which is nil where there is none.
// bump says false when an OOM has no meaning.
func (c *Cluster) AddOOM(o OOM, now time.Time, bump func(w *Workload, reported, peak int64) (bytes int64, ok bool)) Taken {
	p, one, taken := c.find(o.Pod, o.Container, o.At, now)
	if one == nil {
		return taken
	}
	if one.tooOld(o.At) {
		return Old
	}
	bytes, ok := bump(p.group.governor(), o.Memory, one.memoryPeak)
	if !ok {
		return Disabled
	}
	taken, changed := one.addMemory(bytes, o.At, true)
	c.took(p, Sample{Pod: o.Pod, Container: o.Container, Resource: Memory, Amount: bytes, At: o.At}, taken, changed, true)
	return taken
}

// find finds the container that a sample is of; without one it says why.
func (c *Cluster) find(id PodID, name string, at, now time.Time) (*pod, *container, Taken) {
	p := c.pods[id]
	if p == nil {
		return nil, nil, Unknown
	}
	one := p.container(name)
	switch {
	case one == nil && slices.Contains(p.init, name):
		return nil, nil, Init
	case one == nil:
		return nil, nil, Unknown
	case at.IsZero():
		return nil, nil, Old
	case at.After(now.Add(maxSkew)):
		return nil, nil, Future
	}
	if one.aggregate == nil { // it expired; what comes now is a new beginning
		c.connect(p, one, now)
	}
	return p, one, Accepted
}

// took notes what became of a sample.
func (c *Cluster) took(p *pod, s Sample, taken Taken, changed, made bool) {
	if taken != Accepted {
		return
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

// governor is the oldest workload that selects the group, nil when none does.
func (g *group) governor() *Workload {
	if len(g.workloads) == 0 {
		return nil
	}
	return g.workloads[0]
}

// Aggregates counts the containers with distinct names and pod labels whose usage is remembered.
func (c *Cluster) Aggregates() int {
	count := 0
	for _, n := range c.namespaces {
		for _, g := range n.groups {
			count += len(g.aggregates)
		}
	}
	return count
}

// CollectGarbage drops aggregates without samples that no pod feeds, and those whose last sample is older than all windows
// together (UPSTREAM.md §2.19). Restored history ends in the same way.
func (c *Cluster) CollectGarbage(now time.Time) {
	for name, n := range c.namespaces {
		for _, g := range n.groups {
			c.collect(g, now)
			if len(g.pods) == 0 && len(g.aggregates) == 0 {
				n.remove(g)
			}
		}
		if len(n.groups)+len(n.asking)+len(n.others) == 0 {
			delete(c.namespaces, name)
		}
	}
	for _, w := range c.workloads {
		for container, a := range w.restored {
			if a.expired(now) {
				delete(w.restored, container)
				w.touch(container)
			}
		}
	}
}

// collect drops the aggregates of a group that have ended. A container of a live pod gets another with its next sample: one
// without would be recommended the minimum.
func (c *Cluster) collect(g *group, now time.Time) {
	dropped := map[string]bool{}
	for name, a := range g.aggregates {
		if (a.Samples == 0 && !g.feeds(name)) || a.expired(now) {
			delete(g.aggregates, name)
			g.touch(name)
			dropped[name] = true
		}
	}
	if len(dropped) == 0 {
		return
	}
	for _, p := range g.pods {
		for _, one := range p.containers {
			if dropped[one.name] && one.aggregate != nil {
				one.aggregate, one.expired = nil, one.aggregate
			}
		}
	}
}

// feeds reports whether samples of a container may still come, or its pods still count for a workload.
func (g *group) feeds(container string) bool {
	return slices.ContainsFunc(g.pods, func(p *pod) bool {
		return (p.active || len(g.workloads) > 0) && p.container(container) != nil
	})
}
