package recommender

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Checkpoints says how history is kept in the cluster (UPSTREAM.md §2.17).
type Checkpoints struct {
	Live     client.Client // reads and writes the API itself, without a cache
	Timeout  time.Duration // of the writes of one cycle
	Interval time.Duration // between collections of those that nobody needs

	lastCollected time.Time
}

// stored is what is known of the checkpoint of a container.
type stored struct {
	revision uint64    // of the history that was written
	until    time.Time // when a window that was not over then is; zero = none
}

// knows notes that the checkpoint of a container holds what was just read from it.
func (w *Workload) knows(container string) {
	if w.stored == nil {
		w.stored = map[string]*stored{}
	}
	w.stored[container] = &stored{revision: w.model.Revision(container)}
}

// outdated reports whether the checkpoint of a container does not hold what is known.
func (w *Workload) outdated(container string, now time.Time) bool {
	revision := w.model.Revision(container)
	was := w.stored[container]
	if was == nil {
		return revision > 0 // without samples there is nothing to keep
	}
	return was.revision != revision || (!was.until.IsZero() && !now.Before(was.until))
}

// gone reports whether no pod has a container any more while there are pods: it was removed from the workload.
func (w *Workload) gone(container string) bool {
	_, present := w.model.Has(container)
	return !present && w.model.Pods() > 0
}

func (r *Recommender) maintainCheckpoints(ctx context.Context, begin time.Time, existing map[model.WorkloadID]bool) {
	until := r.until(begin, checkpointShare)
	if timeout := r.Clock.Now().Add(r.Checkpoints.Timeout); timeout.Before(until) {
		until = timeout
	}
	ctx, cancel := context.WithTimeout(ctx, until.Sub(r.Clock.Now()))
	defer cancel()
	r.writeCheckpoints(ctx, until)
	now := r.Clock.Now()
	if r.Checkpoints.lastCollected.IsZero() {
		r.Checkpoints.lastCollected = now
	}
	if existing != nil && now.Sub(r.Checkpoints.lastCollected) >= r.Checkpoints.Interval && ctx.Err() == nil {
		r.collectCheckpoints(ctx, existing)
		r.Checkpoints.lastCollected = now
	}
}

// checkpointWrite is one checkpoint to be written.
type checkpointWrite struct {
	w         *Workload
	container string
	status    vpav1.VerticalPodAutoscalerCheckpointStatus
	stored    stored
}

// writeCheckpoints writes the history that changed since it was written last, of the VPAs that waited longest first.
func (r *Recommender) writeCheckpoints(ctx context.Context, until time.Time) {
	now := r.Clock.Now()
	all := r.Workloads()
	slices.SortStableFunc(all, func(a, b *Workload) int { return a.writtenAt.Compare(b.writtenAt) })
	work := make(chan checkpointWrite)
	var done sync.WaitGroup
	var mu sync.Mutex // what workers note of workloads
	for range r.Workers {
		done.Go(func() {
			for c := range work {
				err := r.writeCheckpoint(ctx, c)
				mu.Lock()
				r.noteCheckpoint(ctx, c, now, err)
				mu.Unlock()
			}
		})
	}
	left := 0
	for _, w := range all {
		if isTrue(w.VPA, vpav1.FetchingHistory) {
			continue
		}
		for _, container := range w.model.Containers() {
			mu.Lock()
			due := w.outdated(container, now) && !w.gone(container)
			mu.Unlock()
			if !due {
				continue
			}
			if ctx.Err() != nil || !r.Clock.Now().Before(until) {
				left++
				writesTotal.WithLabelValues("checkpoint", "postponed").Inc()
				continue
			}
			c := checkpointWrite{w: w, container: container}
			c.stored.revision = w.model.Revision(container)
			var ok bool
			if c.status, c.stored.until, ok = w.model.Checkpoint(r.cluster.Settings(), container, now); ok {
				work <- c
			}
		}
	}
	close(work)
	done.Wait()
	if left > 0 {
		r.Log.Info("checkpoints are left for the next cycle: --checkpoints-timeout, --kube-api-qps or the API server allow no more in this one", "left", left)
	}
}

// noteCheckpoint notes what became of a write.
func (r *Recommender) noteCheckpoint(ctx context.Context, c checkpointWrite, now time.Time, err error) {
	switch {
	case err == nil:
		writesTotal.WithLabelValues("checkpoint", "success").Inc()
		if c.w.stored == nil {
			c.w.stored = map[string]*stored{}
		}
		c.w.stored[c.container] = &c.stored
		c.w.writtenAt = now
	case ctx.Err() != nil || outOfTime(err):
		writesTotal.WithLabelValues("checkpoint", "postponed").Inc()
	default:
		writesTotal.WithLabelValues("checkpoint", "error").Inc()
		r.log(c.w).Error(err, "the checkpoint is written again in the next cycle", "container", c.container)
	}
}

// writeCheckpoint replaces the status of a checkpoint, or creates it.
func (r *Recommender) writeCheckpoint(ctx context.Context, c checkpointWrite) error {
	object := &vpav1.VerticalPodAutoscalerCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.w.VPA.Namespace, Name: c.w.VPA.Name + "-" + c.container},
		Spec:       vpav1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: c.w.VPA.Name, ContainerName: c.container},
		Status:     c.status,
	}
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status", "value": c.status}})
	if err != nil {
		return fmt.Errorf("encoding checkpoint %s: %w", object.Name, err)
	}
	err = r.Checkpoints.Live.Patch(ctx, object.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))
	if apierrors.IsNotFound(err) {
		err = r.Checkpoints.Live.Create(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("writing checkpoint %s/%s: %w", object.Namespace, object.Name, err)
	}
	return nil
}

// collectCheckpoints deletes those whose VPA is gone, and those of containers that were removed from the workload of a VPA.
func (r *Recommender) collectCheckpoints(ctx context.Context, existing map[model.WorkloadID]bool) {
	deleted := 0
	err := r.Checkpoints.each(ctx, r.Namespaces.Only, func(object *unstructured.Unstructured) {
		if !r.Namespaces.Serve(object.GetNamespace()) {
			return
		}
		name, _, _ := unstructured.NestedString(object.Object, "spec", "vpaObjectName")
		container, _, _ := unstructured.NestedString(object.Object, "spec", "containerName")
		id := model.WorkloadID{Namespace: object.GetNamespace(), Name: name}
		w := r.workloads[id]
		if existing[id] && (w == nil || !w.gone(container)) {
			return
		}
		if err := r.Checkpoints.Live.Delete(ctx, object); err != nil && !apierrors.IsNotFound(err) {
			r.Log.Error(err, "cannot delete a checkpoint that nobody needs; it is tried again", "namespace", object.GetNamespace(), "checkpoint", object.GetName())
			return
		}
		deleted++
		if w != nil {
			delete(w.stored, container)
		}
	})
	r.notices.tell(r.Log, "collecting checkpoints", err, "checkpoints that nobody needs are left for the next time")
	if deleted > 0 {
		r.Log.Info("checkpoints that nobody needs are deleted", "deleted", deleted)
	}
}
