package updater

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/statuslease"
	"github.com/celvpa/celvpa/controllers/turns"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// run is one cycle.
type run struct {
	*Updater
	Log   logr.Logger // in place of that of the Updater
	rules *compile.Rulebook
	// now is the start of the cycle. All actions are stamped with it and all ages are measured to
	// it: with the actual time, an action late in one cycle would be slightly less than a whole
	// number of intervals old in the next ones.
	now         time.Time
	noAdmission string // why evictions are paused; empty = the admission controller is alive
	limits      limitranges.Cache

	// A rate limit is exhausted for the rest of this cycle.
	evictionsOver, resizesOver atomic.Bool
}

// RunOnce processes every pod of every VPA once. Its deadline is one interval; in the next cycle, those of each namespace
// that are left come first.
func (u *Updater) RunOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, u.Interval)
	defer cancel()
	r := u.newRun()
	if r.isOutdated() {
		return
	}
	var vpas vpav1.VerticalPodAutoscalerList
	var err error
	latency.Time("ListVPAs", func() { err = r.Client.List(ctx, &vpas, client.UnsafeDisableDeepCopy) })
	if err != nil {
		r.Log.Error(err, "cannot list VerticalPodAutoscalers; skipping this cycle")
		return
	}
	var pods []*corev1.Pod
	latency.Time("ListPods", func() { pods = r.Pods() })
	var work []*workload
	latency.Time("FilterPods", func() {
		r.forget(vpas.Items, pods)
		work = r.assign(ctx, vpas.Items, pods)
		r.restore(work)
	})
	latency.Time("AdmissionInit", func() { r.askAdmission(ctx) })
	if postponed, limit := r.first.next(); postponed > 0 {
		r.Log.Info("the last cycle postponed evictions and restarting resizes, as --first-cycle-evictions asks for after a start", "postponed", postponed, "limit", limit)
	}
	latency.Time("EvictPods", func() {
		ctx, cancel := r.untilMarks(ctx, pods)
		defer cancel()
		r.updateAll(ctx, work)
	})
	r.markAgain(ctx, pods)
	r.clearConditions(ctx, vpas.Items, work)
	u.tallies.publish(work)
	postponed := postponedPodsOf(work)
	u.postponed.Store(&postponed)
}

// newRun starts a cycle.
func (u *Updater) newRun() *run {
	return &run{Updater: u, Log: u.Log, rules: u.Rules(), now: u.Clock.Now(), limits: limitranges.Cache{Reader: u.Client}}
}

// isOutdated reports whether to do nothing in this cycle: the pods that the cache shows may be gone, and
// to evict others would be too much.
func (r *run) isOutdated() bool {
	if r.Outdated == nil {
		return false
	}
	reason := r.Outdated()
	if reason != "" {
		r.Log.Info("skipping this cycle: changes in the cluster may have gone unseen", "reason", reason)
	}
	return reason != ""
}

// forget drops the state of pods, owners and VPAs that are gone, and matches replacement pods with
// evictions.
func (r *run) forget(vpas []vpav1.VerticalPodAutoscaler, pods []*corev1.Pod) {
	isLive := r.memory.Look(pods, r.now)
	for _, pods := range []*sync.Map{&r.unmarked, &r.recorded} {
		pods.Range(func(uid, _ any) bool {
			if !isLive(uid.(types.UID)) {
				pods.Delete(uid)
			}
			return true
		})
	}
	names := make(map[types.NamespacedName]bool, len(vpas))
	for i := range vpas {
		names[nameOf(&vpas[i])] = true
	}
	for name := range r.known {
		if !names[name] {
			forgetCounters(name)
			r.reported.Forget(name.String() + " ")
		}
	}
	r.known = names
	r.Decisions.Keep(func(vpa types.NamespacedName) bool { return names[vpa] })
}

// reportOf names a failure that is reported about a VPA.
func reportOf(v *vpav1.VerticalPodAutoscaler, about string) string {
	return nameOf(v).String() + " " + string(v.UID) + " " + about
}

func nameOf(v *vpav1.VerticalPodAutoscaler) types.NamespacedName {
	return types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
}

// askAdmission checks whether new pods would get their recommended resources.
func (r *run) askAdmission(ctx context.Context) {
	if r.Admission == nil {
		return
	}
	err := r.Admission(ctx)
	if err == nil {
		return
	}
	r.noAdmission = err.Error()
	r.memory.Breaker.Reset()
	reason, message := statusError, "admission controller status lease cannot be read; evictions paused until it can"
	if statuslease.IsAbandoned(err) {
		reason, message = statusInvalid, "admission controller status lease expired; evictions paused until it is renewed"
	}
	invalidStatus.WithLabelValues(reason).Inc()
	r.Log.Info(message+" (see --admission-controller-status-lease-name and -namespace; --use-admission-controller-status=false turns the check off)", "reason", err.Error())
}

// updateAll processes VPAs in parallel, in their turns, until all are done or the deadline passes.
func (r *run) updateAll(ctx context.Context, work []*workload) {
	r.inTurn(work)
	next := make(chan *workload)
	var workers sync.WaitGroup
	for range min(max(r.Concurrent, 1), len(work)) {
		workers.Go(func() {
			for w := range next {
				r.updateVPA(ctx, w)
			}
		})
	}
	for _, w := range work {
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- w:
			w.started = true
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	r.noteTurns(work)
}

// noteTurns records which VPAs got nothing. One that was interrupted, or that used up a rate limit, has had its share; if it were
// first again, it might take all of the next cycle, too.
func (r *run) noteTurns(work []*workload) {
	before, left := r.waited, 0
	r.waited = map[types.UID]int{}
	for _, w := range work {
		if w.sent {
			r.turns.Served(w.vpa.Namespace)
		}
		if w.started && !w.late {
			continue
		}
		left++
		if !w.sent {
			r.waited[w.vpa.UID] = before[w.vpa.UID] + 1
		}
	}
	if left > 0 {
		r.Log.Info("cycle interrupted by its deadline or a rate limit; the next cycle starts with the VPAs that this one did not reach", "left", left, "gotNothing", len(r.waited))
	}
}

// inTurn sorts workloads: namespaces take turns, and within each those come first that have waited longest, then by name.
func (r *run) inTurn(work []*workload) {
	slices.SortFunc(work, func(a, b *workload) int {
		return cmp.Or(cmp.Compare(r.waited[b.vpa.UID], r.waited[a.vpa.UID]), strings.Compare(a.vpa.Namespace, b.vpa.Namespace), strings.Compare(a.vpa.Name, b.vpa.Name))
	})
	turns.Order(&r.turns, work, func(w *workload) (string, int) {
		if r.waited[w.vpa.UID] >= turns.Patience {
			return w.vpa.Namespace, 0
		}
		return w.vpa.Namespace, 1
	})
}
