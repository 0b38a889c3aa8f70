package recommender

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/turns"
)

// The writes of a cycle end before the next cycle, which starts with those that are left.
const (
	statusShare     = 0.5  // of the interval for statuses
	firstShare      = 1.0  // of the interval for the first statuses of VPAs, unless checkpoints have waited for long
	checkpointShare = 0.75 // of the interval for statuses and checkpoints
	leastShare      = 0.25 // of the interval that each of them gets, however late the cycle is
	leastTime       = time.Second
)

// until is the deadline for writes of one kind in a cycle.
func (r *Recommender) until(begin time.Time, share float64) time.Time {
	end, least := begin.Add(part(r.Interval, share)), r.Clock.Now().Add(max(part(r.Interval, leastShare), leastTime))
	if end.Before(least) {
		return least
	}
	return end
}

func part(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }

// writeStatuses writes the statuses that changed. Namespaces take turns. In each of them those come first that have waited for long,
// then those of VPAs without one, which have more time, then urgent ones, then those that waited longest.
func (r *Recommender) writeStatuses(ctx context.Context, updates []*Update, until, untilFirst time.Time) {
	long := r.Clock.Now().Add(-turns.Patience * r.Interval)
	slices.SortStableFunc(updates, func(a, b *Update) int { return waitingSince(a).Compare(waitingSince(b)) })
	turns.Order(&r.statusTurns, updates, func(u *Update) (string, int) { return u.Workload.VPA.Namespace, u.urgency(long) })
	if untilFirst.Before(until) {
		untilFirst = until
	}
	latest := until
	if slices.ContainsFunc(updates, func(u *Update) bool { return u.First }) {
		latest = untilFirst
	}
	ctx, cancel := context.WithTimeout(ctx, latest.Sub(r.Clock.Now()))
	defer cancel()
	work := make(chan *Update)
	var done sync.WaitGroup
	var over atomic.Bool // one write ran out of time, and so would the others
	for range r.Workers {
		done.Go(func() {
			for u := range work {
				if r.writeStatus(ctx, u) {
					over.Store(true)
				}
			}
		})
	}
	for _, u := range updates {
		end := until
		if u.First {
			end = untilFirst
		}
		if over.Load() || ctx.Err() != nil || !r.Clock.Now().Before(end) {
			r.postpone(u)
			continue
		}
		r.statusTurns.Served(u.Workload.VPA.Namespace)
		work <- u
	}
	close(work)
	done.Wait()
	written, left := 0, 0
	for _, u := range updates {
		if u.written {
			written++
		} else if u.postponed {
			left++
			r.crowded = r.crowded || u.First
		}
	}
	postponedWrites.WithLabelValues("status").Set(float64(left))
	if left > 0 {
		r.Log.Info("statuses postponed to the next cycle by --kube-api-qps or the API server", "written", written, "left", left)
	}
}

// urgency orders updates, the most urgent first. Those that have waited since before long are.
func (u *Update) urgency(long time.Time) int {
	switch {
	case waitingSince(u).Before(long):
		return 0
	case u.First:
		return 1
	case u.Urgent:
		return 2
	}
	return 3
}

// waitingSince is when an update was first due; the end of time for new ones.
func waitingSince(u *Update) time.Time {
	if u.Workload.waiting.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return u.Workload.waiting
}

func (r *Recommender) postpone(u *Update) {
	writesTotal.WithLabelValues("status", "postponed").Inc()
	u.postponed = true
	if u.Workload.waiting.IsZero() {
		u.Workload.waiting = r.Clock.Now()
	}
}

// writeStatus writes a status, and reports whether it ran out of time.
func (r *Recommender) writeStatus(ctx context.Context, u *Update) (late bool) {
	w := u.Workload
	err := Writer{r.Live}.Status(ctx, client.ObjectKeyFromObject(w.VPA), u.Status)
	switch {
	case err == nil:
		writesTotal.WithLabelValues("status", "success").Inc()
		u.written, w.waiting, w.sent = true, time.Time{}, sentStatus{w.VPA.ResourceVersion, u.Status}
		if !hasRecommendation(w.VPA.Status.Recommendation) && hasRecommendation(u.Status.Recommendation) {
			recommendationLatency.Observe(r.Clock.Since(w.VPA.CreationTimestamp.Time).Seconds())
		}
	case apierrors.IsNotFound(err) && w.missing != w.VPA.ResourceVersion: // deleted meanwhile
		w.missing, err = w.VPA.ResourceVersion, nil
	case apierrors.IsNotFound(err): // API servers answer the same where a CRD lacks the subresource
		writesTotal.WithLabelValues("status", "error").Inc()
		err = fmt.Errorf("writing the status: %w, although the VPA is listed: its CRD may lack the status subresource; install the CRDs with `celvpa crd | kubectl apply --server-side -f -`", err)
	case ctx.Err() != nil || outOfTime(err):
		r.postpone(u)
		return true
	default:
		writesTotal.WithLabelValues("status", "error").Inc()
		err = fmt.Errorf("writing the status: %w", err)
	}
	r.notices.Report(r.log(w), w.String()+" writing the status", err, "cannot write the status; retrying in each cycle")
	return false
}
