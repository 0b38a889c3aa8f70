package updater

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

// workload is a VPA with its rules and the pods it controls.
type workload struct {
	vpa     *vpav1.VerticalPodAutoscaler
	rules   compile.Selection
	pods    []*corev1.Pod
	others  map[types.UID]string // the VPAs by which admission would replace pods, where that is not vpa
	counted counters

	started bool // a worker has taken it; set by the dispatcher
	// Set by the worker:
	late  bool // something was postponed to the next cycle
	sent  bool // a request was sent
	tally tally
}

// assign gives each pod to its controlling VPA, and skips VPAs that do not change running pods.
func (r *run) assign(ctx context.Context, vpas []vpav1.VerticalPodAutoscaler, pods []*corev1.Pod) []*workload {
	byTarget, competing := make(matcher.Targets, len(vpas)), map[string]bool{}
	byVPA := make(map[*matcher.VPA]*workload, len(vpas))
	for i := range vpas {
		if !r.Namespaces.Serve(vpas[i].Namespace) {
			continue
		}
		v := matcher.New(r.rules, &vpas[i], r.Log)
		r.report(v)
		byTarget.Add(v)
		if v.Competes(matcher.Update) {
			competing[v.Object.Namespace] = true
		}
		if v.Takes(matcher.Update) {
			byVPA[v] = &workload{vpa: v.Object, rules: v.Rules}
		}
	}
	for _, s := range r.controlling(ctx, pods, byTarget, competing) {
		for i, v := range s.of {
			if w := byVPA[v]; w != nil {
				w.pods = append(w.pods, s.pods[i])
				w.replacedBy(s.pods[i], s.admitted[i])
			}
		}
	}
	out := make([]*workload, 0, len(byVPA))
	for _, w := range byVPA {
		w.counted = countersOf(w.vpa, len(w.pods))
		w.counted.begin()
		out = append(out, w)
	}
	return out
}

// report logs why a VPA is skipped, and what overlays in mode Audit would change about it. Most VPAs need no logger.
func (r *run) report(v *matcher.VPA) {
	ignored, verdict := v.Ignored(matcher.Update), v.Verdict(matcher.Update)
	if ignored == "" && verdict.Err == nil && len(v.Rules.Shadows) == 0 {
		return
	}
	log := r.Log.WithValues("namespace", v.Object.Namespace, "vpa", v.Object.Name)
	switch {
	case ignored == "":
		policy.Report(log, "pods of this VPA skipped", verdict.Err)
		r.auditUpdate(v, log)
	case v.Object.Unreadable() != "":
		log.Info("VPA skipped: it cannot be decoded completely", "reason", v.Object.Unreadable())
	default:
		log.V(4).Info("pods of this VPA skipped", "reason", ignored) // its condition says so
	}
}

// replacedBy notes the VPA by which admission would change a pod that replaces one; nil = none.
func (w *workload) replacedBy(pod *corev1.Pod, v *matcher.VPA) {
	if v == nil || v.Object.UID == w.vpa.UID {
		return
	}
	if w.others == nil {
		w.others = map[types.UID]string{}
	}
	w.others[pod.UID] = v.Object.Name
}

// assigners is how many owners are looked up in parallel. Most lookups hit a cache, but the scale of a
// new custom owner is read from the API server.
const assigners = 4

// assignShare is the part of the interval that may be spent on reading custom owners: if an API
// server does not answer, only the pods of its owners are skipped.
const assignShare = 0.25

// siblings are pods with the same direct owner.
type siblings struct {
	pods []*corev1.Pod
	// The VPAs that control them, and those by which admission would replace them; nil = none. Both are
	// empty where the owner could not be looked up.
	of, admitted []*matcher.VPA
}

// siblingsOf groups the pods of some namespaces. Pods that nobody controls have no VPA.
func siblingsOf(pods []*corev1.Pod, namespaces map[string]bool) []*siblings {
	type ownedBy struct {
		target.Key
		uid types.UID
	}
	found := map[ownedBy]*siblings{}
	var out []*siblings
	for _, pod := range pods {
		owner, owned := target.DirectOwner(pod)
		if !owned || !namespaces[pod.Namespace] {
			continue
		}
		of := ownedBy{owner, target.ControllerOf(pod.OwnerReferences).UID}
		s := found[of]
		if s == nil {
			s = &siblings{}
			found[of], out = s, append(out, s)
		}
		s.pods = append(s.pods, pod)
	}
	return out
}

// controlling finds the VPAs of pods in namespaces where some compete for pods.
func (r *run) controlling(ctx context.Context, pods []*corev1.Pod, vpas matcher.Targets, competing map[string]bool) []*siblings {
	ctx, cancel := context.WithTimeout(ctx, part(r.Interval, assignShare))
	defer cancel()
	groups := siblingsOf(pods, competing)
	var workers sync.WaitGroup
	for first := range assigners {
		workers.Go(func() {
			for i := first; i < len(groups); i += assigners {
				s := groups[i]
				s.pods = slices.DeleteFunc(s.pods, func(pod *corev1.Pod) bool { return !alive(pod) || r.memory.IsGone(pod.UID, r.now) })
				r.lookUp(ctx, s, vpas)
			}
		})
	}
	workers.Wait()
	return groups
}

// lookUp finds the VPAs of siblings.
func (r *run) lookUp(ctx context.Context, s *siblings, vpas matcher.Targets) {
	if len(s.pods) == 0 {
		return
	}
	namespace, pod := s.pods[0].Namespace, s.pods[0].Name
	defer r.contain(r.Log, "pods of this owner skipped", "namespace", namespace, "pod", pod)
	top, err := r.Resolver.Topmost(ctx, s.pods[0])
	if err != nil {
		r.Log.V(4).Info("pods of this owner skipped", "namespace", namespace, "pod", pod, "reason", err.Error())
		return
	}
	for _, pod := range s.pods {
		of, admitted := r.match(ctx, top, pod, vpas)
		s.of, s.admitted = append(s.of, of), append(s.admitted, admitted)
	}
}

// match returns the VPA that controls a pod, and the one by which admission would change a pod that replaces it; nil = none.
func (r *run) match(ctx context.Context, top *target.Top, pod *corev1.Pod, vpas matcher.Targets) (of, admitted *matcher.VPA) {
	if top == nil {
		return nil, nil
	}
	list := vpas.Of(top.Key)
	of = matcher.Match(ctx, matcher.Update, top, list, pod, nil)
	if admitted = of; of != nil && len(list) > 1 {
		admitted = matcher.Match(ctx, matcher.Admission, top, list, pod, nil)
	}
	return of, admitted
}

func part(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }

// alive reports whether a pod is scheduled, not finished and not terminating.
func alive(pod *corev1.Pod) bool { return podupdate.IgnoredReason(pod) == "" }
