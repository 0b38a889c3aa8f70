package updater

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// workload is a VPA with its rules and the pods it controls.
type workload struct {
	vpa     *vpav1.VerticalPodAutoscaler
	rules   compile.Selection
	pods    []*corev1.Pod
	counted counted

	begun bool // a worker has taken it up; of the one who hands out work
	// The rest is of the worker.
	late  bool // something had to wait for a limit that lets nothing pass any more in this cycle
	sent  bool // something was let pass before
	tally tally
}

// assign gives each pod to its controlling VPA, and leaves out VPAs that change no running pods.
func (r *run) assign(ctx context.Context, vpas []vpav1.VerticalPodAutoscaler, pods []corev1.Pod) []*workload {
	byNamespace := map[string][]*vpav1.VerticalPodAutoscaler{}
	byVPA := map[types.UID]*workload{}
	for i := range vpas {
		v := &vpas[i]
		if !r.Namespaces.Serve(v.Namespace) {
			continue
		}
		log := r.Log.WithValues("namespace", v.Namespace, "vpa", v.Name)
		if fault := v.Unreadable(); fault != "" {
			log.Info("the VPA is left out, because not all of it can be read", "reason", fault)
			continue
		}
		chosen := policy.For(r.rules, v)
		if chosen.Err != nil {
			log.V(4).Info("the pods of the VPA are left alone", "reason", chosen.Err.Error()) // its condition says so
			byNamespace[v.Namespace] = append(byNamespace[v.Namespace], v)                    // nor may another VPA take them
			continue
		}
		verdict := chosen.Plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v), nil)
		policy.Report(log, "the pods of the VPA are left alone", verdict.Err)
		r.auditUpdate(v, chosen.Shadows, verdict, log)
		if verdict.Do == facts.DoApply {
			byNamespace[v.Namespace] = append(byNamespace[v.Namespace], v)
			byVPA[v.UID] = &workload{vpa: v, rules: chosen}
		}
	}
	for i, v := range r.controlling(ctx, pods, byNamespace) {
		if w := byVPA[v]; w != nil {
			w.pods = append(w.pods, &pods[i])
		}
	}
	out := make([]*workload, 0, len(byVPA))
	for _, w := range byVPA {
		w.counted = countedOf(w.vpa, len(w.pods))
		w.counted.begin()
		out = append(out, w)
	}
	return out
}

// assigners are how many pods are assigned at a time: mostly from memory, but a custom owner that is new is looked up.
const assigners = 4

// assignShare is the part of the interval after which no custom owner is waited for any more: of an API server that does not answer
// only its own pods shall suffer.
const assignShare = 0.25

// controlling finds the VPA of each pod; empty = none.
func (r *run) controlling(ctx context.Context, pods []corev1.Pod, candidates map[string][]*vpav1.VerticalPodAutoscaler) []types.UID {
	ctx, cancel := context.WithTimeout(ctx, part(r.Interval, assignShare))
	defer cancel()
	of := make([]types.UID, len(pods))
	var workers sync.WaitGroup
	for first := range assigners {
		workers.Go(func() {
			for i := first; i < len(pods); i += assigners {
				if pod := &pods[i]; len(candidates[pod.Namespace]) > 0 && alive(pod) && !r.breaker.isGone(pod.UID) {
					of[i] = r.controllingOne(ctx, pod, candidates[pod.Namespace])
				}
			}
		})
	}
	workers.Wait()
	return of
}

func (r *run) controllingOne(ctx context.Context, pod *corev1.Pod, candidates []*vpav1.VerticalPodAutoscaler) types.UID {
	log := r.Log.WithValues("namespace", pod.Namespace, "pod", pod.Name)
	defer r.contain(log, "the pod is left alone")
	v, err := r.Resolver.ControllingVPA(ctx, pod, candidates, policy.Precedence(r.rules, r.Log))
	if err != nil {
		log.V(4).Info("the pod is left alone", "reason", err.Error())
	}
	if err != nil || v == nil {
		return ""
	}
	return v.UID
}

func part(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }

// alive: scheduled, not finished and not terminating.
func alive(pod *corev1.Pod) bool { return podupdate.Unlooked(pod) == "" }
