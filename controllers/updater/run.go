package updater

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/statuslease"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// run is one cycle.
type run struct {
	*Updater
	rules *compile.Rulebook
	// now is when the cycle began. What is done in it is stamped so, and ages are counted up to it: stamped with the moment itself,
	// what was done a little later in one cycle than it is looked at in another would be short of whole intervals.
	now         time.Time
	noAdmission string // why the admission controller is taken for dead; empty = it is alive

	// A limit lets nothing pass any more in this cycle.
	evictionsOver, resizesOver atomic.Bool
}

// RunOnce looks at every pod of every VPA once. It ends by itself after one interval: what it had no time for comes first in the
// next cycle.
func (u *Updater) RunOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, u.Interval)
	defer cancel()
	r := u.newRun()
	var vpas vpav1.VerticalPodAutoscalerList
	if !r.list(ctx, "ListVPAs", &vpas, "VerticalPodAutoscalers") {
		return
	}
	var pods corev1.PodList
	if !r.list(ctx, "ListPods", &pods, "pods") {
		return
	}
	var work []*workload
	latency.Time("FilterPods", func() {
		r.forget(vpas.Items, pods.Items)
		work = r.assign(ctx, vpas.Items, pods.Items)
		r.clearConditions(ctx, vpas.Items, work)
	})
	latency.Time("AdmissionInit", func() { r.askAdmission(ctx) })
	r.markAgain(ctx, pods.Items)
	latency.Time("EvictPods", func() { r.updateAll(ctx, work) })
	u.tallies.tell(work)
}

// newRun begins a cycle.
func (u *Updater) newRun() *run { return &run{Updater: u, rules: u.Rules(), now: u.Clock.Now()} }

// list reads objects of one kind, and reports whether it could.
func (r *run) list(ctx context.Context, step string, list client.ObjectList, what string) (ok bool) {
	latency.Time(step, func() {
		err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy)
		if ok = err == nil; !ok {
			r.Log.Error(err, "cannot list "+what+"; this cycle does nothing")
		}
	})
	return ok
}

// forget drops what is remembered of pods, owners and VPAs that are gone, and looks what came of evictions.
func (r *run) forget(vpas []vpav1.VerticalPodAutoscaler, pods []corev1.Pod) {
	live, owners := make(map[types.UID]bool, len(pods)), map[target.Key]bool{}
	for i := range pods {
		live[pods[i].UID] = true
		owner, _ := target.DirectOwner(&pods[i])
		owners[owner] = true
	}
	isLive := func(pod types.UID) bool { return live[pod] }
	r.resizes.keep(isLive)
	r.sent.keep(isLive)
	r.unmarked.keep(isLive)
	r.infeasible.keep(isLive)
	r.backOffs.keep(owners, live)
	r.breaker.look(pods, live, r.now)

	uids, names := make(map[types.UID]bool, len(vpas)), make(map[types.NamespacedName]bool, len(vpas))
	for i := range vpas {
		uids[vpas[i].UID], names[nameOf(&vpas[i])] = true, true
	}
	r.reported.keep(func(vpa types.UID) bool { return uids[vpa] })
	for name := range r.known {
		if !names[name] {
			forgetCounters(name)
		}
	}
	r.known = names
}

func nameOf(v *vpav1.VerticalPodAutoscaler) types.NamespacedName {
	return types.NamespacedName{Namespace: v.Namespace, Name: v.Name}
}

// askAdmission finds out whether new pods would get their resources.
func (r *run) askAdmission(ctx context.Context) {
	if r.Admission == nil {
		return
	}
	err := r.Admission(ctx)
	if err == nil {
		return
	}
	r.noAdmission = err.Error()
	reason := statusError
	if statuslease.IsAbandoned(err) {
		reason = statusInvalid
	}
	invalidStatus.WithLabelValues(reason).Inc()
	r.Log.Info("the admission controller is taken for dead: until it renews its status lease no pod is evicted; see --admission-controller-status-lease-name and -namespace, or stop asking with --use-admission-controller-status=false", "reason", err.Error())
}

// updateAll works on several VPAs at a time, beginning with the one whose turn it is, until all are done or the time is over.
func (r *run) updateAll(ctx context.Context, work []*workload) {
	order := inTurn(work, r.turn)
	next := make(chan *workload)
	var workers sync.WaitGroup
	for range min(max(r.Concurrent, 1), len(order)) {
		workers.Go(func() {
			for w := range next {
				r.updateVPA(ctx, w)
			}
		})
	}
	for _, w := range order {
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- w:
			w.begun = true
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	// Those that were begun and not finished had their share of the time, and those that a limit stopped had theirs of it: were they
	// first again, they might take all of it.
	r.turn = types.NamespacedName{}
	waiting, without := 0, false
	for _, w := range order {
		if w.begun && !w.late {
			continue
		}
		if waiting == 0 || !without && !w.sent {
			r.turn = nameOf(w.vpa)
		}
		without = without || !w.sent
		waiting++
	}
	if waiting > 0 {
		r.Log.Info("the cycle ran out of time, or out of what the rate limits allow; the next one begins where it stopped", "VPAs", waiting, "next", r.turn.String())
	}
}

// inTurn are workloads in the order of namespace and name, beginning with the first one that is not before turn.
func inTurn(work []*workload, turn types.NamespacedName) []*workload {
	at := func(w *workload) types.NamespacedName { return nameOf(w.vpa) }
	compare := func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	}
	sorted := slices.Clone(work)
	slices.SortFunc(sorted, func(a, b *workload) int { return compare(at(a), at(b)) })
	first, _ := slices.BinarySearchFunc(sorted, turn, func(w *workload, turn types.NamespacedName) int { return compare(at(w), turn) })
	return slices.Concat(sorted[first:], sorted[:first])
}
