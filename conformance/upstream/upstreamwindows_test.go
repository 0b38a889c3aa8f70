package upstream

import (
	"reflect"
	"time"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
)

// openWindows are the lengths of the memory windows of containers with history that have not ended.
func (u *byUpstream) openWindows() map[model.ContainerID]time.Duration {
	out := map[model.ContainerID]time.Duration{}
	for pod, state := range u.cluster.Pods() {
		for name, c := range state.Containers {
			id := model.ContainerID{PodID: pod, ContainerName: name}
			if u.hasHistory(id) && time.Now().Before(c.WindowEnd) {
				out[id] = c.GetMemoryAggregationIntervalDuration()
			}
		}
	}
	return out
}

// hasHistory reports whether there is history of the containers of this name in pods with the same
// labels. Upstream has no question about it that does not begin one.
func (u *byUpstream) hasHistory(id model.ContainerID) bool {
	key := u.cluster.MakeAggregateStateKey(u.cluster.Pods()[id.PodID], id.ContainerName)
	return reflect.ValueOf(u.cluster).Elem().FieldByName("aggregateStateMap").MapIndex(reflect.ValueOf(key)).IsValid()
}
