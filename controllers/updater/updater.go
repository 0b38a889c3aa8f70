package updater

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sort"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// Options configure an Updater; all fields but Admission are required.
type Options struct {
	Client     client.Client // reads from a cache, writes to the API
	Actuator   Actuator
	Resolver   *target.Resolver
	Rules      func() *engine.Rulebook // the rules in force, asked once a cycle
	Shadows    *policy.Shadows
	Clock      clock.WithTicker
	Log        logr.Logger
	Interval   time.Duration
	Namespaces target.Namespaces
	// Admission reports why the admission controller is taken for dead; nil does not ask.
	Admission func(context.Context) error
}

// Updater runs cycles over all pods of all VPAs while it leads.
type Updater struct {
	*cycle.Loop
	Options
	resizes     resizeClock
	rules       *engine.Rulebook // of the cycle at hand
	noAdmission string           // why the admission controller is taken for dead in this cycle; empty = it is alive
}

// New returns an updater.
func New(o Options) *Updater {
	u := &Updater{Options: o}
	u.Loop = cycle.New("updater", o.Interval, o.Clock, func(ctx context.Context) {
		latency.Time("total", func() { u.RunOnce(ctx) })
	})
	return u
}

// RunOnce looks at every pod of every VPA once. Each call ends by itself after one interval.
func (u *Updater) RunOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, u.Interval)
	defer cancel()
	u.rules = u.Rules()
	var vpas vpav1.VerticalPodAutoscalerList
	if err := u.Client.List(ctx, &vpas); err != nil {
		u.Log.Error(err, "cannot list VerticalPodAutoscalers; this cycle does nothing")
		return
	}
	var pods corev1.PodList
	if err := u.Client.List(ctx, &pods); err != nil {
		u.Log.Error(err, "cannot list pods; this cycle does nothing")
		return
	}
	live := map[types.UID]bool{}
	for i := range pods.Items {
		live[pods.Items[i].UID] = true
	}
	u.resizes.keep(live)
	u.noAdmission = ""
	if u.Admission != nil {
		if err := u.Admission(ctx); err != nil {
			u.noAdmission = err.Error()
			u.Log.Info("the admission controller is taken for dead", "reason", err.Error())
		}
	}
	for _, work := range u.assign(ctx, vpas.Items, pods.Items) {
		if ctx.Err() != nil {
			u.Log.Info("the cycle ran out of time; the rest waits for the next one")
			return
		}
		u.updateVPA(ctx, work)
	}
}

// workload is a VPA with its rules and the pods it controls.
type workload struct {
	vpa   *vpav1.VerticalPodAutoscaler
	rules engine.Selection
	pods  []*corev1.Pod
}

// assign gives each pod to its controlling VPA; the result is sorted by namespace and name.
func (u *Updater) assign(ctx context.Context, vpas []vpav1.VerticalPodAutoscaler, pods []corev1.Pod) []workload {
	byNamespace := map[string][]*vpav1.VerticalPodAutoscaler{}
	byVPA := map[types.UID]*workload{}
	for i := range vpas {
		v := &vpas[i]
		if !u.Namespaces.Serve(v.Namespace) {
			continue
		}
		log := u.Log.WithValues("namespace", v.Namespace, "vpa", v.Name)
		if fault := v.Unreadable(); fault != "" {
			log.Info("the VPA is left out, because not all of it can be read", "reason", fault)
			continue
		}
		chosen := policy.For(u.rules, v)
		if chosen.Err != nil {
			log.V(4).Info("the pods of the VPA are left alone", "reason", chosen.Err.Error()) // its condition says so
			byNamespace[v.Namespace] = append(byNamespace[v.Namespace], v)                    // nor may another VPA take them
			continue
		}
		verdict := chosen.Plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v), nil)
		policy.Report(log, "the pods of the VPA are left alone", verdict.Err)
		u.auditUpdate(v, chosen.Shadows, verdict, log)
		if verdict.Do == facts.DoApply {
			byNamespace[v.Namespace] = append(byNamespace[v.Namespace], v)
			byVPA[v.UID] = &workload{vpa: v, rules: chosen}
		}
	}
	for i := range pods {
		pod := &pods[i]
		candidates := byNamespace[pod.Namespace]
		if len(candidates) == 0 || !alive(pod) {
			continue
		}
		v, err := u.Resolver.ControllingVPA(ctx, pod, candidates)
		if err != nil {
			u.Log.V(4).Info("the pod is left alone", "namespace", pod.Namespace, "pod", pod.Name, "reason", err.Error())
			continue
		}
		if v == nil || byVPA[v.UID] == nil {
			continue
		}
		byVPA[v.UID].pods = append(byVPA[v.UID].pods, pod)
	}
	out := make([]workload, 0, len(byVPA))
	for _, w := range byVPA {
		out = append(out, *w)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i].vpa, out[j].vpa
		if a.Namespace != b.Namespace {
			return a.Namespace < b.Namespace
		}
		return a.Name < b.Name
	})
	return out
}

// alive: scheduled, not finished and not terminating (UPSTREAM.md §5.1).
func alive(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// ranked is a pod with the rules that decide on it.
type ranked struct {
	*podupdate.Pod
	rules   engine.Selection
	request podupdate.Request
}

// updateVPA ranks the pods of one VPA and carries out the verdict on each. A panic stays with this VPA.
func (u *Updater) updateVPA(ctx context.Context, work workload) {
	v := work.vpa
	log := u.Log.WithValues("namespace", v.Namespace, "vpa", v.Name)
	defer func() {
		if p := recover(); p != nil {
			log.Error(fmt.Errorf("panic: %v", p), "the pods of this VPA are left alone; please report this", "stack", string(debug.Stack()))
		}
	}()
	limits, err := limitranges.Of(ctx, u.Client, v.Namespace)
	if err != nil {
		log.Error(err, "the pods of this VPA are left alone; trying again next cycle")
		return
	}
	groups := podupdate.Groups(ctx, u.Resolver, work.pods, func(owner target.Key, err error) {
		log.V(4).Info("the replicas of a group are not known", "owner", owner.String(), "error", err.Error())
	})
	list := make([]*podupdate.Pod, 0, len(work.pods))
	of := map[*podupdate.Pod]ranked{}
	for _, pod := range work.pods {
		r := ranked{rules: work.rules, request: podupdate.Request{
			Pod: pod, VPA: v, Limits: limits, Now: u.Clock.Now(), ResizeSeen: u.resizes.seen(pod, u.Clock.Now()), NoAdmission: u.noAdmission,
		}}
		var failed []*engine.RuleError
		r.Pod, failed = podupdate.Assess(work.rules.Plan, r.request, nil)
		policy.Report(log.WithValues("pod", pod.Name), "its values are left as they were", failed...)
		list, of[r.Pod] = append(list, r.Pod), r
	}
	podupdate.Sort(list)
	for _, one := range list {
		if ctx.Err() != nil {
			return
		}
		u.updatePod(ctx, of[one], groups[one.Owner], log.WithValues("pod", one.PodState.Pod.Name))
	}
}

// auditUpdate records what overlays that are not enforced would say about whether a VPA changes running pods.
func (u *Updater) auditUpdate(v *vpav1.VerticalPodAutoscaler, shadows []engine.Shadow, enforced engine.Verdict, log logr.Logger) {
	defer policy.UntilPanic(log)
	for _, shadow := range shadows {
		tried := shadow.Plan.Decide(facts.VPAUpdate, facts.UpdateFacts(v), nil)
		u.Shadows.Record(v, shadow, "whether running pods are changed", policy.VerdictDifference(enforced, tried))
	}
}

// audit records what overlays that are not enforced would do with a pod instead.
func (u *Updater) audit(r ranked, group facts.Group, enforced engine.Verdict, log logr.Logger) {
	defer policy.UntilPanic(log)
	for _, shadow := range r.rules.Shadows {
		tried, _ := podupdate.Assess(shadow.Plan, r.request, nil)
		verdict := tried.Decide(shadow.Plan, group, nil)
		differs := policy.VerdictDifference(enforced, verdict)
		if order, other := r.Priority, tried.Priority; other.First != order.First || cmp.Compare(other.Then, order.Then) != 0 {
			differs = append(differs, fmt.Sprintf("order (%d, %g) → (%d, %g)", order.First, order.Then, other.First, other.Then))
		}
		if verdict.Do == facts.DoEvict || verdict.Do == facts.DoInPlace {
			differs = append(differs, facts.ChangeDifferences(r.Change, tried.Change)...)
		}
		if len(differs) > 0 {
			differs[0] = "pod " + r.request.Pod.Name + ": " + differs[0]
		}
		u.Shadows.Record(r.VPA, shadow, "running pods", differs)
	}
}

// updatePod asks the rules and does what they say. After a refused resize they are asked once more.
func (u *Updater) updatePod(ctx context.Context, r ranked, group *facts.Group, log logr.Logger) {
	for try := range 2 {
		verdict := r.Decide(r.rules.Plan, *group, nil)
		if try == 0 {
			u.audit(r, *group, verdict, log)
		}
		policy.Report(log, "the pod is left alone", verdict.Err)
		log.V(5).Info("decided", "do", verdict.Do, "rule", verdict.Rule, "reason", verdict.Reason)
		switch verdict.Do {
		case facts.DoEvict:
			u.evict(ctx, r.Pod, group, verdict, log)
			return
		case facts.DoInPlace:
			if refused := u.resize(ctx, r.Pod, group, verdict, log); refused != nil {
				r.Attempt.Refused, r.Attempt.Message = facts.RefusedForbidden, refused.Error()
				continue
			}
			return
		default:
			return
		}
	}
}

func (u *Updater) evict(ctx context.Context, p *podupdate.Pod, group *facts.Group, verdict engine.Verdict, log logr.Logger) {
	if err := u.Actuator.Evict(ctx, p.PodState.Pod, p.VPA, verdict); err != nil {
		failedEvictions.WithLabelValues(p.VPA.Name, p.VPA.Namespace, "EvictionError").Inc()
		log.Error(err, "the eviction was refused; trying again next cycle", "rule", verdict.Rule)
		return
	}
	if p.PodState.Pod.Status.Phase != corev1.PodPending {
		group.Disrupted++
	}
	evictedPods.WithLabelValues(p.VPA.Name, p.VPA.Namespace).Inc()
	log.Info("pod evicted", "rule", verdict.Rule, "reason", verdict.Reason)
}

// resize returns the API server's refusal; nil when the resize was taken.
func (u *Updater) resize(ctx context.Context, p *podupdate.Pod, group *facts.Group, verdict engine.Verdict, log logr.Logger) error {
	if err := u.Actuator.Resize(ctx, p.PodState.Pod, p.VPA, p.Change, verdict); err != nil {
		failedResizes.WithLabelValues(p.VPA.Name, p.VPA.Namespace, "InPlaceUpdateError").Inc()
		log.Error(err, "the resize was refused", "rule", verdict.Rule)
		return err
	}
	group.Disrupted++
	resizedPods.WithLabelValues(p.VPA.Name, p.VPA.Namespace).Inc()
	log.Info("pod resized in place", "rule", verdict.Rule, "reason", verdict.Reason)
	return nil
}
