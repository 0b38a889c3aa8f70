package updater

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/controllers/updater/counters"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
)

// workload is a VPA with its rules and the pods it controls.
type workload struct {
	vpa     *vpav1.VerticalPodAutoscaler
	rules   compile.Selection
	pods    []*corev1.Pod
	others  map[types.UID]string // the VPAs by which admission would replace pods, where that is not vpa
	counted counters.VPA

	started bool // a worker has taken it; set by the dispatcher
	// Set by the worker:
	late  bool // something was postponed to the next cycle
	sent  bool // a request was sent
	tally tally
}

// judged is a VPA with what the rules say about its running pods.
type judged struct {
	vpa     *vpav1.VerticalPodAutoscaler
	rules   compile.Selection
	verdict engine.Verdict // of vpa.update; zero if no rules were asked
	ignored string         // why no rules were asked; empty = they were
}

// takes reports whether the VPA changes running pods.
func (j *judged) takes() bool { return j.verdict.Do == facts.DoApply }

// competes reports whether no other VPA gets the pods that this one selects. One whose rules cannot
// be used changes no pods, and leaves none to others.
func (j *judged) competes() bool { return j.takes() || j.rules.Err != nil }

// judge asks the rules whether a VPA changes running pods.
func (r *run) judge(v *vpav1.VerticalPodAutoscaler) judged {
	j := judged{vpa: v}
	if fault := v.Unreadable(); fault != "" {
		j.ignored = "it cannot be decoded completely: " + fault
		return j
	}
	if j.rules = policy.For(r.rules, v); j.rules.Err != nil {
		j.ignored = "the rules that it asks for cannot be used: " + j.rules.Err.Error()
		return j
	}
	f := facts.UpdateFacts(v)
	j.verdict = j.rules.Plan.Decide(facts.VPAUpdate, f, nil)
	f.Return()
	return j
}

// assign gives each pod to its controlling VPA, and skips VPAs that do not change running pods.
func (r *run) assign(ctx context.Context, vpas []vpav1.VerticalPodAutoscaler, pods []*corev1.Pod) []*workload {
	found := candidates{byTarget: make(target.ByTarget, len(vpas)), namespaces: map[string]bool{}}
	all := make(target.ByTarget, len(vpas))
	byVPA := make(map[types.UID]*workload, len(vpas))
	for i := range vpas {
		v := &vpas[i]
		if !r.Namespaces.Serve(v.Namespace) {
			continue
		}
		j := r.judge(v)
		r.reportJudged(&j)
		all.Add(v)
		if j.competes() {
			found.byTarget.Add(v)
			found.namespaces[v.Namespace] = true
		}
		if j.takes() {
			byVPA[v.UID] = &workload{vpa: v, rules: j.rules}
		}
	}
	found.admitting = r.admitting(all, found.byTarget)
	for _, s := range r.controlling(ctx, pods, found) {
		for i, v := range s.of {
			if v == nil {
				continue
			}
			if w := byVPA[v.UID]; w != nil {
				w.pods = append(w.pods, s.pods[i])
				if s.admitted != nil {
					w.replacedBy(s.pods[i], s.admitted[i])
				}
			}
		}
	}
	out := make([]*workload, 0, len(byVPA))
	for _, w := range byVPA {
		w.counted = counters.Of(w.vpa, len(w.pods))
		w.counted.Begin()
		out = append(out, w)
	}
	return out
}

// reportJudged logs why a VPA is skipped, and what overlays in mode Audit would change about it. Most VPAs need no logger.
func (r *run) reportJudged(j *judged) {
	if j.ignored == "" && j.verdict.Err == nil && len(j.rules.Shadows) == 0 {
		return
	}
	log := r.Log.WithValues("namespace", j.vpa.Namespace, "vpa", j.vpa.Name)
	switch {
	case j.rules.Err != nil:
		log.V(4).Info("pods of this VPA skipped", "reason", j.rules.Err.Error()) // its condition says so
	case j.ignored != "":
		log.Info("VPA skipped: it cannot be decoded completely", "reason", j.vpa.Unreadable())
	default:
		policy.Report(log, "pods of this VPA skipped", j.verdict.Err)
		r.auditUpdate(j.vpa, j.rules.Shadows, j.verdict, log)
	}
}

// replacedBy notes the VPA by which admission would change a pod that replaces one; nil = none.
func (w *workload) replacedBy(pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler) {
	if v == nil || v.UID == w.vpa.UID {
		return
	}
	if w.others == nil {
		w.others = map[types.UID]string{}
	}
	w.others[pod.UID] = v.Name
}

// admitting are the VPAs that change new pods, by those targets of which other VPAs change running
// ones: admission and the updater could then obey different VPAs.
func (r *run) admitting(all, competing target.ByTarget) target.ByTarget {
	out := target.ByTarget{}
	for of, vpas := range all {
		if len(vpas) == 1 || len(competing[of]) == 0 {
			continue
		}
		admit := slices.DeleteFunc(slices.Clone(vpas), func(v *vpav1.VerticalPodAutoscaler) bool { return !policy.Admits(r.rules, v) })
		if !slices.Equal(admit, competing[of]) {
			out[of] = admit
		}
	}
	return out
}

// assigners is how many owners are looked up in parallel. Most lookups hit a cache, but the scale of a
// new custom owner is read from the API server.
const assigners = 4

// assignShare is the part of the interval that may be spent on reading custom owners: if an API
// server does not answer, only the pods of its owners are skipped.
const assignShare = 0.25

// candidates are the VPAs that compete for pods.
type candidates struct {
	byTarget   target.ByTarget
	admitting  target.ByTarget // see run.admitting
	namespaces map[string]bool // that have some; owners of other pods are not looked up
}

// siblings are pods with the same direct owner.
type siblings struct {
	pods []*corev1.Pod
	of   []*vpav1.VerticalPodAutoscaler // that control them; nil = none
	// admitted are those by which admission would replace the pods, each nil for none; nil = the same as of.
	admitted []*vpav1.VerticalPodAutoscaler
}

// siblingsOf groups the pods of namespaces with candidates. Pods that nobody controls have no VPA.
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

// controlling finds the VPAs of pods.
func (r *run) controlling(ctx context.Context, pods []*corev1.Pod, candidates candidates) []*siblings {
	ctx, cancel := context.WithTimeout(ctx, part(r.Interval, assignShare))
	defer cancel()
	groups := siblingsOf(pods, candidates.namespaces)
	var workers sync.WaitGroup
	for first := range assigners {
		workers.Go(func() {
			for i := first; i < len(groups); i += assigners {
				s := groups[i]
				s.pods = slices.DeleteFunc(s.pods, func(pod *corev1.Pod) bool { return !alive(pod) || r.breaker.IsGone(pod.UID, r.now) })
				r.lookUp(ctx, s, candidates)
			}
		})
	}
	workers.Wait()
	return groups
}

// lookUp finds the VPAs of siblings.
func (r *run) lookUp(ctx context.Context, s *siblings, candidates candidates) {
	if len(s.pods) == 0 {
		return
	}
	namespace, pod := s.pods[0].Namespace, s.pods[0].Name
	defer r.contain(r.Log, "pods of this owner skipped", "namespace", namespace, "pod", pod)
	compare := policy.Precedence(r.rules, r.Log)
	var admitting []*vpav1.VerticalPodAutoscaler
	of, err := r.Resolver.ControllingVPAs(ctx, s.pods, func(top target.Key) ([]*vpav1.VerticalPodAutoscaler, error) {
		admitting, _ = candidates.admitting.Of(top)
		return candidates.byTarget.Of(top)
	}, compare)
	var admitted []*vpav1.VerticalPodAutoscaler
	if err == nil && len(admitting) > 0 {
		admitted, err = r.Resolver.ControllingVPAs(ctx, s.pods, func(target.Key) ([]*vpav1.VerticalPodAutoscaler, error) { return admitting, nil }, compare)
	}
	if err != nil {
		r.Log.V(4).Info("pods of this owner skipped", "namespace", namespace, "pod", pod, "reason", err.Error())
		return
	}
	s.of, s.admitted = of, admitted
}

// controllingOne is the VPA of a pod; empty = none.
func (r *run) controllingOne(ctx context.Context, pod *corev1.Pod, byTarget target.ByTarget) types.UID {
	s := siblings{pods: []*corev1.Pod{pod}}
	r.lookUp(ctx, &s, candidates{byTarget: byTarget})
	if len(s.of) == 0 || s.of[0] == nil {
		return ""
	}
	return s.of[0].UID
}

func part(d time.Duration, share float64) time.Duration { return time.Duration(float64(d) * share) }

// alive reports whether a pod is scheduled, not finished and not terminating.
func alive(pod *corev1.Pod) bool { return podupdate.IgnoredReason(pod) == "" }
