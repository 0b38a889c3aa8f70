package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// Recommender is a recommender with usage of the past.
type Recommender struct {
	State *recommender.State

	now       time.Time
	workloads map[model.WorkloadID]*recommender.Workload // of which something is known
	written   map[model.WorkloadID]map[string]time.Time  // when the checkpoint of a container was
}

// Workload is the state of a VPA; nil if nothing is known of it.
func (r *Recommender) Workload(namespace, name string) *recommender.Workload {
	return r.workloads[model.WorkloadID{Namespace: namespace, Name: name}]
}

// Written is when the checkpoints of a VPA were written, by container.
func (r *Recommender) Written(namespace, name string) map[string]time.Time {
	return r.written[model.WorkloadID{Namespace: namespace, Name: name}]
}

// Status is what a recommender with this usage would write into the status of a VPA; nil if nothing is known
// of it.
func (r *Recommender) Status(namespace, name string) *vpav1.VerticalPodAutoscalerStatus {
	w := r.Workload(namespace, name)
	if w == nil {
		return nil
	}
	return r.State.Status(w, r.now)
}

// LastCheckpoint is when the newest of the VerticalPodAutoscalerCheckpoints was written; zero without any.
func LastCheckpoint(set *manifests.Set) (last time.Time) {
	checkpoints, _ := set.Checkpoints() // Restored says what cannot be read
	for i := range checkpoints {
		if at := checkpoints[i].Status.LastUpdateTime.Time; at.After(last) {
			last = at
		}
	}
	return last.UTC()
}

// Restored is a recommender with the usage in the cluster's VerticalPodAutoscalerCheckpoints, of the VPAs that
// ask for celvpa's recommender by its usual name. It lacks what no checkpoint holds: the usage since the last
// write and, if upstream wrote it, the memory windows that are open. A recommender that is started now knows as
// much. remember says for how long usage counts. The error lists what cannot be used.
func (c *Cluster) Restored() (*Recommender, error) {
	w, unusable := c.world()
	pods, unreadPods := c.pods()
	w.addOwners(pods)
	checkpoints, unread := c.set.Checkpoints()
	r, unrestored := w.restored(pods, checkpoints)
	return r, faults.Join(unusable, unreadPods, unread, unrestored)
}

func (c *world) restored(pods []*corev1.Pod, checkpoints []vpav1.VerticalPodAutoscalerCheckpoint) (*Recommender, error) {
	now := c.clock.Now()
	state := recommender.NewState(model.UnusedGrace, logr.New(&noteSink{to: c.Cluster}), nil)
	state.Objects = c.set
	state.UseRules(c.book)
	all := map[model.WorkloadID]*recommender.Workload{}
	for _, v := range c.vpas {
		if !recommender.Asks(v.Object, recommender.DefaultName) {
			continue
		}
		found := target.Answer{Selector: labels.Nothing()}
		if selector, problem := c.resolver.Selector(context.Background(), v.Object); problem != nil {
			found.Problem = problem
		} else {
			found.Selector = selector
		}
		all[model.WorkloadID{Namespace: v.Object.Namespace, Name: v.Object.Name}] = state.SetVPA(v.Object, found)
	}
	r := &Recommender{State: state, now: now, workloads: map[model.WorkloadID]*recommender.Workload{}, written: map[model.WorkloadID]map[string]time.Time{}}
	var errs []error
	for i := range checkpoints {
		checkpoint := &checkpoints[i]
		switch known, err := state.Restore(checkpoint, now); {
		case err != nil:
			errs = append(errs, fmt.Errorf("VerticalPodAutoscalerCheckpoint %s/%s cannot be used: %w", checkpoint.Namespace, checkpoint.Name, err))
		case known:
			id := model.WorkloadID{Namespace: checkpoint.Namespace, Name: checkpoint.Spec.VPAObjectName}
			r.workloads[id] = all[id]
			if r.written[id] == nil {
				r.written[id] = map[string]time.Time{}
			}
			r.written[id][checkpoint.Spec.ContainerName] = checkpoint.Status.LastUpdateTime.UTC()
		}
	}
	present := map[model.PodID]bool{}
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodPending { // as a recommender does
			present[model.PodID{Namespace: pod.Namespace, Name: pod.Name}] = true
			state.SetPod(pod, true, now)
		}
	}
	state.Govern()
	state.Continue(now)
	state.Forget(present, now)
	return r, faults.Join(errs...)
}
