package recommender

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/turns"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Checkpoints configures how history is kept in the cluster (UPSTREAM.md §2.17).
type Checkpoints struct {
	Timeout  time.Duration // of the writes of one cycle
	Interval time.Duration // between deletions of unused ones

	collected time.Time   // begin of the last collection, or the first cycle
	pass      *collection // that goes on; nil = none does
}

// stored describes the last checkpoint of a container.
type stored struct {
	revision uint64    // of the history in it
	until    time.Time // end of the memory window that was open; zero = none
}

// knows records that the checkpoint of a container is up to date.
func (w *Workload) knows(container string) {
	w.stores(container, stored{revision: w.model.Revision(container)})
}

// stores records what the checkpoint of a container holds.
func (w *Workload) stores(container string, s stored) {
	if w.stored == nil {
		w.stored = map[string]stored{}
	}
	w.stored[container] = s
}

// prune forgets the checkpoints of containers that have neither usage nor pods: one that comes back is
// written anew. While the target is unknown, usage may only be out of sight.
func (w *Workload) prune() {
	if w.model.Selector() == nil {
		return
	}
	ended := func(container string) bool {
		known, present := w.model.Has(container)
		return !known && !present
	}
	maps.DeleteFunc(w.stored, func(container string, _ stored) bool { return ended(container) })
	maps.DeleteFunc(w.judged, func(container string, _ time.Time) bool { return ended(container) })
	maps.DeleteFunc(w.past, func(container string, _ *past) bool { return ended(container) })
}

// outdated reports whether the checkpoint of a container lacks history.
func (w *Workload) outdated(container string, now time.Time) bool {
	revision := w.model.Revision(container)
	was, written := w.stored[container]
	if !written {
		return revision > 0 // without samples there is nothing to write
	}
	return was.revision != revision || (!was.until.IsZero() && !now.Before(was.until))
}

// gone reports whether a container was removed from the workload: there are pods, and none has it.
// Where pods may differ, its usage must have expired, too.
func (w *Workload) gone(container string) bool {
	known, present := w.model.Has(container)
	return !present && w.model.Pods() > 0 && (!known || target.PodsAlike(w.VPA))
}

func (r *Recommender) maintainCheckpoints(ctx context.Context, begin time.Time, existing map[model.WorkloadID]bool) {
	until := r.until(begin, checkpointShare)
	if timeout := r.Clock.Now().Add(r.Checkpoints.Timeout); timeout.Before(until) {
		until = timeout
	}
	if r.crowded && r.yielded < turns.Patience { // VPAs wait for their first status: the next cycle must not be late
		until = r.Clock.Now()
		r.yielded++
	} else {
		r.yielded = 0
	}
	writing, cancel := context.WithTimeout(ctx, until.Sub(r.Clock.Now()))
	r.writeCheckpoints(writing, until)
	cancel()
	if existing != nil {
		r.collectCheckpoints(ctx, existing)
	}
}

// checkpointWrite is one checkpoint to be written.
type checkpointWrite struct {
	w         *Workload
	container string
	status    vpav1.VerticalPodAutoscalerCheckpointStatus
	stored    stored
}

// writeCheckpoints writes the history that changed since the last write. Namespaces take turns, and in each the VPAs come first that
// have waited longest.
func (r *Recommender) writeCheckpoints(ctx context.Context, until time.Time) {
	now := r.Clock.Now()
	due := r.dueCheckpoints(now)
	work := make(chan checkpointWrite)
	var done sync.WaitGroup
	var mu sync.Mutex // what workers note of workloads, and here
	written, left, over := 0, 0, false
	for range r.Workers {
		done.Go(func() {
			for c := range work {
				err := Writer{r.Live}.Checkpoint(ctx, client.ObjectKeyFromObject(c.w.VPA), c.container, c.status)
				mu.Lock()
				switch {
				case r.noteCheckpoint(ctx, c, now, err):
					over = true
					left++
				case err == nil:
					written++
				}
				mu.Unlock()
			}
		})
	}
	for _, c := range due {
		mu.Lock()
		late := over || ctx.Err() != nil || !r.Clock.Now().Before(until)
		if late {
			left++
		}
		mu.Unlock()
		if late {
			writesTotal.WithLabelValues("checkpoint", "postponed").Inc()
			continue
		}
		c.stored.revision = c.w.model.Revision(c.container)
		var ok bool
		if c.status, c.stored.until, ok = c.w.model.Checkpoint(c.container, now); ok {
			c.w.storePast(c.container, &c.status)
			r.checkpointTurns.Served(c.w.VPA.Namespace)
			work <- c
		}
	}
	close(work)
	done.Wait()
	postponedWrites.WithLabelValues("checkpoint").Set(float64(left))
	if left > 0 {
		r.Log.Info("checkpoints postponed to the next cycle by --checkpoints-timeout, --kube-api-qps or the API server", "written", written, "left", left)
	}
}

// dueCheckpoints are those to be written, in their turns.
func (r *Recommender) dueCheckpoints(now time.Time) []checkpointWrite {
	var due []checkpointWrite
	for _, w := range r.Workloads() {
		if isTrue(w.VPA, vpav1.FetchingHistory) || w.model.Selector() == nil {
			continue // what is known of a workload without its pods is less than what is stored
		}
		for _, container := range w.model.Containers() {
			if w.outdated(container, now) && !w.gone(container) {
				due = append(due, checkpointWrite{w: w, container: container})
			}
		}
	}
	slices.SortStableFunc(due, func(a, b checkpointWrite) int { return a.w.writtenAt.Compare(b.w.writtenAt) })
	turns.Order(&r.checkpointTurns, due, func(c checkpointWrite) (string, int) { return c.w.VPA.Namespace, 0 })
	return due
}

// noteCheckpoint records the outcome of a write, and reports whether it ran out of time.
func (r *Recommender) noteCheckpoint(ctx context.Context, c checkpointWrite, now time.Time, err error) (late bool) {
	switch {
	case err == nil:
		writesTotal.WithLabelValues("checkpoint", "success").Inc()
		c.w.stores(c.container, c.stored)
	case ctx.Err() != nil || outOfTime(err):
		writesTotal.WithLabelValues("checkpoint", "postponed").Inc()
		return true
	default:
		writesTotal.WithLabelValues("checkpoint", "error").Inc()
	}
	c.w.writtenAt = now
	r.notices.Report(r.log(c.w), c.w.String()+" checkpoint of "+c.container, err, "cannot write the checkpoint; retrying in each cycle")
	return false
}
