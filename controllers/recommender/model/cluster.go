package model

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// PodID names a pod.
type PodID struct {
	Namespace string
	Name      string
}

// Sample is one observation of one container.
type Sample struct {
	Pod       PodID
	Container string
	At        time.Time
	CPU       int64 // milli-cores
	Memory    int64 // bytes

	Resource Resource // see sample.go
	Amount   int64
}

// Cluster is the recommender's memory of all pods and their usage. It belongs to one goroutine.
type Cluster struct {
	settings   Settings
	pods       map[PodID]*pod
	aggregates map[string]map[aggregateKey]*Aggregate // by namespace
}

// aggregateKey: every distinct label set of pods has its own aggregate (UPSTREAM.md §2.11).
type aggregateKey struct {
	container string
	labels    string
}

type pod struct {
	labels     labels.Set
	labelKey   string
	containers map[string]*Container
	ignored    map[string]bool // init containers: their samples are dropped
	active     bool            // neither succeeded nor failed
}

// NewCluster returns an empty memory.
func NewCluster(s Settings) *Cluster {
	return &Cluster{settings: s, pods: map[PodID]*pod{}, aggregates: map[string]map[aggregateKey]*Aggregate{}}
}

// PodSpec is what the model needs to know of a pod.
type PodSpec struct {
	Labels         map[string]string
	Containers     []string
	InitContainers []string
	Active         bool // neither succeeded nor failed
}

// SetPod adds or updates a pod. A change of labels moves its containers to other aggregates.
func (c *Cluster) SetPod(id PodID, spec PodSpec) {
	p := c.pods[id]
	key := labels.Set(spec.Labels).String()
	if p == nil {
		p = &pod{containers: map[string]*Container{}}
		c.pods[id] = p
	}
	moved := p.labelKey != key || p.labels == nil
	p.labels, p.labelKey, p.active = spec.Labels, key, spec.Active
	if p.labels == nil {
		p.labels = labels.Set{}
	}
	p.ignored = make(map[string]bool, len(spec.InitContainers))
	for _, name := range spec.InitContainers {
		p.ignored[name] = true
	}
	for _, name := range spec.Containers {
		container := p.containers[name]
		if container == nil {
			container = &Container{}
			p.containers[name] = container
		}
		if moved || container.aggregate == nil {
			container.aggregate = c.aggregate(id.Namespace, aggregateKey{container: name, labels: key})
		}
	}
}

func (c *Cluster) aggregate(namespace string, key aggregateKey) *Aggregate {
	byKey := c.aggregates[namespace]
	if byKey == nil {
		byKey = map[aggregateKey]*Aggregate{}
		c.aggregates[namespace] = byKey
	}
	if byKey[key] == nil {
		byKey[key] = NewAggregate(c.settings)
	}
	return byKey[key]
}

// KeepPods forgets the pods that keep does not hold; their usage stays in the aggregates.
func (c *Cluster) KeepPods(keep map[PodID]bool) {
	for id := range c.pods {
		if !keep[id] {
			delete(c.pods, id)
		}
	}
}

// Result says how a sample was taken.
type Result struct {
	Known       bool // the pod and the container are known
	CPU, Memory bool // accepted
}

// AddSample records a sample of a container that SetPod named.
func (c *Cluster) AddSample(s Sample) Result {
	p := c.pods[s.Pod]
	if p == nil {
		return Result{}
	}
	if p.ignored[s.Container] {
		return Result{Known: true} // dropped (UPSTREAM.md §2.7)
	}
	container := p.containers[s.Container]
	if container == nil {
		return Result{}
	}
	return Result{
		Known:  true,
		CPU:    container.addCPU(s.CPU, s.At),
		Memory: container.addMemory(s.Memory, s.At, c.settings.MemoryInterval),
	}
}

// View merges what is known of the containers of the pods that a selector matches, by container name, and counts
// the pods.
func (c *Cluster) View(namespace string, selector labels.Selector) (containers map[string]*Aggregate, pods int) {
	containers = map[string]*Aggregate{}
	matches := map[string]bool{}
	for key, a := range c.aggregates[namespace] {
		match, known := matches[key.labels]
		if !known {
			match = matchesKey(selector, key.labels)
			matches[key.labels] = match
		}
		if !match {
			continue
		}
		if containers[key.container] == nil {
			containers[key.container] = NewAggregate(c.settings)
		}
		containers[key.container].Merge(a)
	}
	for id, p := range c.pods {
		if id.Namespace == namespace && selector.Matches(p.labels) {
			pods++
		}
	}
	return containers, pods
}

func matchesKey(selector labels.Selector, key string) bool {
	set, err := labels.ConvertSelectorToLabelsMap(key)
	return err == nil && selector.Matches(set)
}

// CollectGarbage drops aggregates that no active pod feeds and that are empty, and those whose last sample is older
// than all windows together (UPSTREAM.md §2.19).
func (c *Cluster) CollectGarbage(now time.Time) {
	fed := map[*Aggregate]bool{}
	for _, p := range c.pods {
		for _, container := range p.containers {
			fed[container.aggregate] = fed[container.aggregate] || p.active
		}
	}
	window := time.Duration(c.settings.IntervalCount) * c.settings.MemoryInterval
	for namespace, byKey := range c.aggregates {
		for key, a := range byKey {
			empty := a.Samples == 0 && !fed[a]
			expired := a.Samples > 0 && !now.Before(a.LastSample.Add(window))
			if empty || expired {
				delete(byKey, key)
				c.unlink(a)
			}
		}
		if len(byKey) == 0 {
			delete(c.aggregates, namespace)
		}
	}
}

// unlink lets the containers of a dropped aggregate get a new one when their pod is next seen.
func (c *Cluster) unlink(a *Aggregate) {
	for id, p := range c.pods {
		for name, container := range p.containers {
			if container.aggregate == a {
				container.aggregate = c.aggregate(id.Namespace, aggregateKey{container: name, labels: p.labelKey})
			}
		}
	}
}

// Aggregates counts the containers with distinct names and pod labels whose usage is remembered.
func (c *Cluster) Aggregates() int {
	n := 0
	for _, byKey := range c.aggregates {
		n += len(byKey)
	}
	return n
}
