package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// Pod is what Prometheus remembers of a pod, which may be gone.
type Pod struct {
	ID model.PodID
	// Labels are those of the newest series that carries them; nil when none is known. Prometheus
	// keeps no label without a value.
	Labels map[string]string

	containers []container // by name
}

// container is the usage of one container, by model.Resource. It is in blocks: growing one slice over
// many answers would take up to twice the memory.
type container struct {
	name  string
	usage [2][][]point
}

// block is how many points a block has at least.
const block = 24

// add appends points, to the last block as long as it has room.
func (c *container) add(r model.Resource, points []point) {
	blocks := c.usage[r]
	if n := len(blocks); n > 0 {
		room := min(cap(blocks[n-1])-len(blocks[n-1]), len(points))
		blocks[n-1] = append(blocks[n-1], points[:room]...)
		points = points[room:]
	}
	if len(points) > 0 {
		c.usage[r] = append(blocks, append(make([]point, 0, max(block, len(points))), points...))
	}
}

// point is a sample without what its neighbours have in common: 16 bytes instead of 88.
type point struct {
	at     int64 // unix milliseconds
	amount int64 // milli-cores or bytes
}

// Samples returns the pod's usage by time; of the same time by container, CPU before memory, and
// the larger amount first where two series are of one container. Times are UTC. The slice is made
// at each call: those of all pods together take five times the memory of the pods.
func (p *Pod) Samples() []model.Sample {
	var out []model.Sample
	for _, c := range p.containers {
		for r, pieces := range c.usage {
			for _, one := range slices.Concat(pieces...) {
				out = append(out, model.Sample{Pod: p.ID, Container: c.name, Resource: model.Resource(r), Amount: one.amount, At: time.UnixMilli(one.at).UTC()})
			}
		}
	}
	slices.SortFunc(out, func(a, b model.Sample) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Container, b.Container), cmp.Compare(a.Resource, b.Resource), cmp.Compare(b.Amount, a.Amount))
	})
	return out
}

// usage gathers the pods of one load.
type usage map[model.PodID]*gathered

type gathered struct {
	containers map[string]*container
	labels     map[string]string
	labelsEnd  int64  // unix milliseconds of the newest series
	labelsFrom string // that series
}

func (u usage) pod(id model.PodID) *gathered {
	p := u[id]
	if p == nil {
		p = &gathered{}
		u[id] = p
	}
	return p
}

func (u usage) container(pod model.PodID, name string) *container {
	p := u.pod(pod)
	if p.containers == nil {
		p.containers = map[string]*container{}
	}
	c := p.containers[name]
	if c == nil {
		c = &container{name: name}
		p.containers[name] = c
	}
	return c
}

// pods are those with containers, sorted by namespace and name.
func (u usage) pods() []Pod {
	var out []Pod
	for _, id := range u.ids() {
		p := u[id]
		if len(p.containers) == 0 {
			continue // only its labels are known
		}
		pod := Pod{ID: id, Labels: p.labels, containers: make([]container, 0, len(p.containers))}
		for _, name := range slices.Sorted(maps.Keys(p.containers)) {
			pod.containers = append(pod.containers, *p.containers[name])
		}
		out = append(out, pod)
	}
	return out
}

func (u usage) ids() []model.PodID {
	return slices.SortedFunc(maps.Keys(u), func(a, b model.PodID) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
