package upstream

import (
	"reflect"
	"time"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
)

// windows are the lengths of the memory windows of containers with history.
func (u *byUpstream) windows() map[model.ContainerID]time.Duration {
	out := map[model.ContainerID]time.Duration{}
	for pod, state := range u.cluster.Pods() {
		for name, c := range state.Containers {
			id := model.ContainerID{PodID: pod, ContainerName: name}
			if u.history(id) != nil {
				out[id] = c.GetMemoryAggregationIntervalDuration()
			}
		}
	}
	return out
}

// lastMemory is the time of the newest memory sample of a container, which upstream keeps to itself.
func lastMemory(c *model.ContainerState) time.Time {
	return *(*time.Time)(reflect.ValueOf(c).Elem().FieldByName("lastMemorySampleStart").Addr().UnsafePointer())
}

// history is that of the containers of this name in pods with the same labels, nil without one.
// Upstream has no question about it that does not begin one.
func (u *byUpstream) history(id model.ContainerID) *model.AggregateContainerState {
	key := u.cluster.MakeAggregateStateKey(u.cluster.Pods()[id.PodID], id.ContainerName)
	found := reflect.ValueOf(u.cluster).Elem().FieldByName("aggregateStateMap").MapIndex(reflect.ValueOf(key))
	if !found.IsValid() {
		return nil
	}
	return (*model.AggregateContainerState)(found.UnsafePointer())
}

// remember records a memory sample that counted: upstream knows the time of CPU samples alone.
func (u *byUpstream) remember(id model.ContainerID, at time.Time) {
	a := u.history(id)
	if a != nil && u.cluster.GetContainer(id).GetMaxMemoryPeak() > 0 && at.After(u.memory[a]) {
		u.memory[a] = at
	}
}

// lasting makes upstream keep usage as long as celvpa does, until either resource's last sample is too
// old, and returns what takes that back.
func (u *byUpstream) lasting() (undo func()) {
	type times struct {
		last    time.Time
		samples int
	}
	before := map[*model.AggregateContainerState]times{}
	for a, last := range u.memory {
		if last.After(a.LastSampleStart) {
			before[a] = times{a.LastSampleStart, a.TotalSamplesCount}
			a.LastSampleStart, a.TotalSamplesCount = last, max(a.TotalSamplesCount, 1)
		}
	}
	return func() {
		for a, was := range before {
			a.LastSampleStart, a.TotalSamplesCount = was.last, was.samples
		}
	}
}
