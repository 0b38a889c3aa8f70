package updater

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/updater/actuation"
)

// How resized pods get the annotations that failed. The API server calls webhooks for each, and a
// webhook may take its whole timeout, by default 10 seconds, to fail.
const (
	// markShare is the part of the interval that is left to them, at the end of a cycle.
	markShare   = 0.2
	markers     = 4                // pods in parallel
	markTimeout = 11 * time.Second // of each
	// The first retry of a pod comes after markBackOff, doubled each time up to the maximum.
	markBackOff    = time.Minute
	markBackOffMax = time.Hour
	// markSlack is how much earlier a retry may come, because cycles do not start to the
	// millisecond.
	markSlack = time.Second
)

// mark is the content of a resized pod's annotations, which are not written yet.
type mark struct {
	vpa    string // its name
	change facts.PodChange
	unsure bool      // the resize was not answered: it is marked once the pod shows that it was carried out
	times  int       // failures in a row
	retry  time.Time // due from then on
}

// failed is the mark after another failure.
func (m mark) failed(now time.Time) mark {
	m.times++
	m.retry = now.Add(min(markBackOff<<min(m.times-1, 10), markBackOffMax) - markSlack)
	return m
}

// unmarkedPod is a resized pod whose annotations are due.
type unmarkedPod struct {
	*corev1.Pod
	mark
}

// untilMarks ends before the share of markAgain, if that has anything to do.
func (r *run) untilMarks(ctx context.Context, pods []*corev1.Pod) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok || len(r.unmarkedPods(pods)) == 0 {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-part(r.Interval, markShare)))
}

// markAgain retries the annotations of resized pods that failed in earlier cycles, which otherwise
// would describe the old resources forever. It takes no more than its share of the interval.
func (r *run) markAgain(ctx context.Context, pods []*corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, part(r.Interval, markShare))
	defer cancel()
	due := r.unmarkedPods(pods)
	var workers sync.WaitGroup
	for first := range markers {
		workers.Go(func() {
			for i := first; i < len(due) && ctx.Err() == nil; i += markers {
				r.markOne(ctx, due[i])
			}
		})
	}
	workers.Wait()
}

// unmarkedPods are those whose retry is due, the longest due first: where the time does not suffice
// for all, the next cycle begins with those that were left out.
func (r *run) unmarkedPods(pods []*corev1.Pod) (due []unmarkedPod) {
	for _, pod := range pods {
		found, _ := r.unmarked.Load(pod.UID)
		if m, missing := found.(mark); missing && !r.now.Before(m.retry) && !(m.unsure && len(facts.Alterations(pod, m.change)) > 0) {
			due = append(due, unmarkedPod{Pod: pod, mark: m})
		}
	}
	slices.SortFunc(due, func(a, b unmarkedPod) int {
		return cmp.Or(a.retry.Compare(b.retry), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return due
}

// markOne writes the annotations of a pod. What the API server refuses for good, such as for lack of
// a permission or by a policy, is not retried: an event has reported it.
func (r *run) markOne(ctx context.Context, p unmarkedPod) {
	defer r.contain(r.Log, "annotations of a resized pod not updated", "namespace", p.Namespace, "pod", p.Name)
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	err := r.Actuator.Mark(ctx, p.Pod, p.vpa, p.change)
	if err == nil {
		r.unmarked.Delete(p.UID)
		return
	}
	switch actuation.RefusalOf(err) {
	case facts.RefusedNotAnswered, facts.RefusedWebhookFailed, facts.RefusedConflict:
		if actuation.OutcomeOf(err) != podupdate.Left {
			r.unmarked.Store(p.UID, p.failed(r.now))
		}
	default:
		r.unmarked.Delete(p.UID)
	}
	r.Log.V(2).Info("cannot annotate a resized pod", "namespace", p.Namespace, "pod", p.Name, "error", err.Error())
}
