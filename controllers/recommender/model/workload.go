package model

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// WorkloadID names a VerticalPodAutoscaler.
type WorkloadID struct {
	Namespace string
	Name      string
}

// Workload is the usage of the pods that the target of a VerticalPodAutoscaler selects. A pod may
// belong to several.
type Workload struct {
	ID WorkloadID

	order    facts.Order
	target   string          // of the VPA; history of another target does not count
	selector labels.Selector // nil = no pods
	last     labels.Selector // the last known one; nil = none was
	chosen   *string         // the last known selector, as text; empty = all pods
	groups   []*group        // by key
	restored map[string]*Aggregate
	resuming map[string]*resumption // what checkpoints hold besides, until Cluster.Continue

	changed   bool
	revisions map[string]uint64 // of the history in checkpoints, by container
	revision  uint64            // the last of them; unique
}

// Usage is the merged usage of a workload's containers of one name.
type Usage struct {
	Container  string
	*Aggregate      // read-only
	Present    bool // a running pod of the workload has such a container, or, while none runs, one that has finished
	Restored   bool // some of it was restored from a checkpoint

	Input facts.RecommendInput // what else its rules read, set by the caller
}

// View is the usage of a workload at one time, merged over its pods.
type View struct {
	Containers []Usage // by name
	Pods       int     // all that match, in any phase but Pending
	// A running pod, or, while none runs, one that has finished, has a pod-level request (AEP-7571).
	PodCPU, PodMemory bool
	// Ended names the containers of pods whose usage has expired and that have no sample since.
	Ended []string
}

// TakeChanged reports whether the workload's view may have changed since the last call.
func (w *Workload) TakeChanged() bool {
	changed := w.changed
	w.changed = false
	return changed
}

// Pods counts the pods of the workload.
func (w *Workload) Pods() int {
	n := 0
	for _, g := range w.groups {
		n += len(g.pods)
	}
	return n
}

// PodNames lists the pods of the workload in the order of their names.
func (w *Workload) PodNames() []string {
	var out []string
	for _, g := range w.groups {
		for _, p := range g.pods {
			out = append(out, p.id.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Selector finds the workload's pods; nil = unknown.
func (w *Workload) Selector() labels.Selector { return w.selector }

// Revision changes with the content of a container's checkpoint; it is 0 when nothing was added
// since it was read.
func (w *Workload) Revision(container string) uint64 { return w.revisions[container] }

// Governs calls f with each aggregate that this workload governs because it is the first by order,
// and with what was restored for it.
func (w *Workload) Governs(f func(container string, a *Aggregate)) {
	for _, g := range w.groups {
		if g.workloads[0] == w {
			for name, a := range g.aggregates {
				f(name, a)
			}
		}
	}
	for name, a := range w.restored {
		f(name, a)
	}
}

// View merges the usage of the workload's containers.
func (w *Workload) View() View {
	var out View
	parts := map[string][]*Aggregate{}
	present := map[string]bool{}
	tallies := w.tallies()
	for _, t := range tallies {
		out.PodCPU = out.PodCPU || t.cpu > 0
		out.PodMemory = out.PodMemory || t.memory > 0
		for name := range t.containers {
			present[name] = true
		}
	}
	for _, g := range w.groups {
		out.Pods += len(g.pods)
		for name, a := range g.aggregates {
			parts[name] = append(parts[name], a)
		}
	}
	for name, a := range w.restored {
		parts[name] = append(parts[name], a)
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		restored := w.restored[name]
		out.Containers = append(out.Containers, Usage{Container: name, Aggregate: merged(parts[name]), Present: present[name], Restored: restored != nil && restored.known()})
	}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		if parts[name] == nil {
			out.Ended = append(out.Ended, name)
		}
	}
	return out
}

// Largest are the largest requests and limits that running pods of the workload have for a container.
func (w *Workload) Largest(container string) (requests, limits facts.Amounts) {
	for _, g := range w.groups {
		for _, p := range g.pods {
			if c := p.container(container); c != nil && p.active {
				requests, limits = requests.Larger(c.requests), limits.Larger(c.limits)
			}
		}
	}
	return requests, limits
}

// tallies count the pods that say what the workload's pods are like: those that run, or, while none does, as between the
// runs of a CronJob, those that have finished. A failed pod from before a rollout does not keep a removed container.
func (w *Workload) tallies() (out []*tally) {
	for _, g := range w.groups {
		if g.running.pods > 0 {
			out = append(out, &g.running)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, g := range w.groups {
		out = append(out, &g.finished)
	}
	return out
}

// Has reports whether there is usage of a container of this name, and whether a pod of the workload
// has one.
func (w *Workload) Has(container string) (known, present bool) {
	for _, g := range w.groups {
		_, has := g.aggregates[container]
		known = known || has
	}
	for _, t := range w.tallies() {
		present = present || t.containers[container] > 0
	}
	_, has := w.restored[container]
	return known || has, present
}

// merged is one aggregate of several; a single one is itself.
func merged(parts []*Aggregate) *Aggregate {
	if len(parts) == 1 {
		return parts[0]
	}
	out := newAggregate(parts[0].Window, parts[0].created)
	for _, a := range parts {
		out.merge(a)
	}
	return out
}

// Checkpoint is the history of a workload's container as it is stored. It leaves out the peaks of
// open windows, which would count twice for upstream after a restart, and has them beside it; write
// it again after until, when one of them closes. Before Cluster.Continue there is none.
func (w *Workload) Checkpoint(container string, now time.Time) (out vpav1.VerticalPodAutoscalerCheckpointStatus, until time.Time, ok bool) {
	if w.resuming[container] != nil {
		return out, until, false
	}
	var parts []*Aggregate
	for _, g := range w.groups {
		if a := g.aggregates[container]; a != nil {
			parts = append(parts, a)
		}
	}
	if a := w.restored[container]; a != nil {
		parts = append(parts, a)
	}
	if len(parts) == 0 {
		return out, until, false
	}
	all := *merged(parts)
	all.Memory = all.Memory.clone()
	for _, g := range w.groups {
		for _, p := range g.pods {
			c := p.container(container)
			if c == nil || c.aggregate == nil || !c.counted || !now.Before(c.windowEnd) {
				continue
			}
			all.Memory.Subtract(float64(c.peak()), 1, c.windowEnd)
			if until.IsZero() || c.windowEnd.Before(until) {
				until = c.windowEnd
			}
		}
	}
	out = all.checkpoint(now)
	out.Resume = w.resume(container, &all, now)
	return out, until, true
}

// Restore adds the history of a container from a checkpoint, and replaces what was restored before. Half-lives of window count where
// the checkpoint has none.
func (w *Workload) Restore(window facts.Window, container string, from *vpav1.VerticalPodAutoscalerCheckpointStatus, now time.Time) error {
	a, err := restore(window, from, now)
	if err != nil {
		return err
	}
	if w.restored == nil {
		w.restored = map[string]*Aggregate{}
	}
	w.restored[container] = a
	delete(w.resuming, container)
	w.changed = true
	return nil
}

// Containers lists the names of all containers with usage.
func (w *Workload) Containers() []string {
	names := map[string]bool{}
	for _, g := range w.groups {
		for name := range g.aggregates {
			names[name] = true
		}
	}
	for name := range w.restored {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// touch records a change of the usage of a container.
func (w *Workload) touch(container string) {
	w.changed = true
	if w.revisions == nil {
		w.revisions = map[string]uint64{}
	}
	w.revision++
	w.revisions[container] = w.revision
}

// inOrder orders workloads of a namespace as the rules say, then by name: the first governs what
// they share.
func inOrder(a, b *Workload) int {
	return cmp.Or(a.order.Compare(b.order), strings.Compare(a.ID.Name, b.ID.Name))
}
