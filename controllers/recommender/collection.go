package recommender

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// collection is a pass over all checkpoints that deletes those which nothing needs. It takes as many
// cycles as it needs, and ends when the last page was read.
type collection struct {
	next   string                    // where the page after this one begins; empty before the first
	last   bool                      // this page is the last one
	rest   []checkpointRef           // of this page
	gone   map[model.WorkloadID]bool // since before it began, with no checkpoint that stays
	failed error                     // of deletions
}

// collectCheckpoints goes on with the collection, or begins one if it is time. What is kept of VPAs
// that were gone when it began is forgotten when it ends.
func (r *Recommender) collectCheckpoints(ctx context.Context, existing map[model.WorkloadID]bool) {
	c := r.Checkpoints
	now := r.Clock.Now()
	if c.collected.IsZero() {
		c.collected = now
	}
	if c.pass == nil {
		if now.Sub(c.collected) < c.Interval {
			return
		}
		c.collected, c.pass = now, &collection{}
		r.using(func() { c.pass.gone = r.cluster.Gone() })
	}
	maps.DeleteFunc(c.pass.gone, func(id model.WorkloadID, _ bool) bool { return r.workloads[id] != nil }) // it is back
	ctx, cancel := context.WithTimeout(ctx, max(part(r.Interval, leastShare), leastTime))
	defer cancel()
	deleted, err := r.collect(ctx, c.pass, existing)
	r.notices.Report(r.Log, "collecting checkpoints", errors.Join(c.pass.failed, err), "cannot delete all unused checkpoints; retrying later")
	if deleted > 0 {
		r.Log.Info("unused checkpoints deleted", "deleted", deleted)
	}
	if c.pass.last && len(c.pass.rest) == 0 {
		r.using(func() { r.cluster.ForgetGone(c.pass.gone) })
		c.pass = nil
	}
}

// collect goes on with a pass until it ends, cannot read on, or runs out of time. That is an error only
// if nothing was done.
func (r *Recommender) collect(ctx context.Context, pass *collection, existing map[model.WorkloadID]bool) (deleted int, err error) {
	for done := 0; ; done++ {
		for len(pass.rest) > 0 {
			ref := pass.rest[0]
			unused, err := r.deleteUnused(ctx, ref, existing)
			switch {
			case err != nil && (ctx.Err() != nil || outOfTime(err)):
				return deleted, unless(done > 0, err)
			case err != nil:
				pass.failed = errors.Join(pass.failed, err)
				delete(pass.gone, model.WorkloadID{Namespace: ref.namespace, Name: ref.vpa})
			case unused:
				deleted++
			}
			pass.rest = pass.rest[1:]
			done++
		}
		if pass.last {
			return deleted, nil
		}
		if err := r.turn(ctx, pass); err != nil {
			return deleted, unless(done > 0 && (ctx.Err() != nil || outOfTime(err)), err)
		}
	}
}

// unless is the error unless it is expected.
func unless(expected bool, err error) error {
	if expected {
		return nil
	}
	return err
}

// turn reads the next page of a pass. Where the API server has forgotten the list that the pass goes on
// with, it says where another one does; otherwise the pass begins again.
func (r *Recommender) turn(ctx context.Context, pass *collection) error {
	keep := func(listed listedCheckpoint) { pass.rest = append(pass.rest, listed.checkpointRef) }
	next, err := r.checkpointsFrom(ctx, pass.next, keep)
	if expired := apierrors.APIStatus(nil); apierrors.IsResourceExpired(err) && errors.As(err, &expired) {
		next, err = r.checkpointsFrom(ctx, expired.Status().Continue, keep)
	}
	if err != nil {
		pass.rest = nil
		return err
	}
	pass.next, pass.last = next, next == ""
	return nil
}

// deleteUnused deletes a checkpoint if its VPA is gone, or if the container was removed from the workload.
func (r *Recommender) deleteUnused(ctx context.Context, ref checkpointRef, existing map[model.WorkloadID]bool) (deleted bool, err error) {
	id := model.WorkloadID{Namespace: ref.namespace, Name: ref.vpa}
	w := r.workloads[id]
	if !r.Namespaces.Serve(ref.namespace) || existing[id] && (w == nil || !w.gone(ref.container)) {
		return false, nil
	}
	object := headOf("VerticalPodAutoscalerCheckpoint", ref.namespace, ref.name)
	if err := r.Live.Delete(ctx, object); err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("deleting checkpoint %s/%s: %w", ref.namespace, ref.name, err)
	}
	if w != nil { // so that it is written again if the container returns
		w.knows(ref.container)
	}
	return true, nil
}
