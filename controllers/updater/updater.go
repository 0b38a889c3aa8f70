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

// ranked is a pod with what the rules say about its distance from the recommendation.
type ranked struct {
	rules    engine.Selection
	state    *facts.PodState
	priority facts.Priority
	owner    target.Key
	limits   *facts.LimitRanges
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
	groups := u.groups(ctx, work.pods, log)
	var list []ranked
	for _, pod := range work.pods {
		owner, _ := target.DirectOwner(pod)
		state, priority, failed := u.rank(work.rules.Plan, v, pod, limits)
		policy.Report(log.WithValues("pod", pod.Name), "its values are left as they were", failed...)
		list = append(list, ranked{rules: work.rules, state: state, priority: priority, owner: owner, limits: limits})
	}
	sortByPriority(list)
	for _, one := range list {
		if ctx.Err() != nil {
			return
		}
		u.updatePod(ctx, one, groups[one.owner], log.WithValues("pod", one.state.Pod.Name))
	}
}

// rank asks the rules of a plan what a pod should have, and how far it is from that.
func (u *Updater) rank(plan *engine.Plan, v *vpav1.VerticalPodAutoscaler, pod *corev1.Pod, limits *facts.LimitRanges) (*facts.PodState, facts.Priority, []*engine.RuleError) {
	change, failed := facts.ResourcesForPod(plan, facts.PodInput{Pod: pod, VPA: v, Limits: limits, Bounds: true}, nil)
	now := u.Clock.Now()
	status := resizeStatus(pod)
	state := &facts.PodState{
		Pod: pod, VPA: v, Change: change, Now: now,
		ResizeStatus: status, ResizeAge: u.resizes.age(pod.UID, status, now),
		NoAdmission: u.noAdmission,
	}
	priority, more := state.Rank(plan, nil)
	return state, priority, append(failed, more...)
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
		state, priority, _ := u.rank(shadow.Plan, r.state.VPA, r.state.Pod, r.limits)
		verdict := state.Decide(shadow.Plan, group, nil)
		differs := policy.VerdictDifference(enforced, verdict)
		if order := r.priority; priority.First != order.First || cmp.Compare(priority.Then, order.Then) != 0 {
			differs = append(differs, fmt.Sprintf("order (%d, %g) → (%d, %g)", order.First, order.Then, priority.First, priority.Then))
		}
		if verdict.Do == facts.DoEvict || verdict.Do == facts.DoInPlace {
			differs = append(differs, facts.ChangeDifferences(r.state.Change, state.Change)...)
		}
		if len(differs) > 0 {
			differs[0] = "pod " + r.state.Pod.Name + ": " + differs[0]
		}
		u.Shadows.Record(r.state.VPA, shadow, "running pods", differs)
	}
}

// sortByPriority puts pods into the order that the rules gave, and by name where that leaves it open.
func sortByPriority(list []ranked) {
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.priority.First != b.priority.First {
			return a.priority.First > b.priority.First
		}
		if c := cmp.Compare(a.priority.Then, b.priority.Then); c != 0 { // what is no number comes last
			return c > 0
		}
		return a.state.Pod.Name < b.state.Pod.Name
	})
}

// updatePod asks the rules and does what they say. After a refused resize they are asked once more.
func (u *Updater) updatePod(ctx context.Context, r ranked, group *facts.Group, log logr.Logger) {
	for try := range 2 {
		verdict := r.state.Decide(r.rules.Plan, *group, nil)
		if try == 0 {
			u.audit(r, *group, verdict, log)
		}
		policy.Report(log, "the pod is left alone", verdict.Err)
		log.V(5).Info("decided", "do", verdict.Do, "rule", verdict.Rule, "reason", verdict.Reason)
		switch verdict.Do {
		case facts.DoEvict:
			u.evict(ctx, r.state, group, verdict, log)
			return
		case facts.DoInPlace:
			if refused := u.resize(ctx, r.state, group, verdict, log); refused != nil {
				r.state.Refused = refused.Error()
				continue
			}
			return
		default:
			return
		}
	}
}

func (u *Updater) evict(ctx context.Context, s *facts.PodState, group *facts.Group, verdict engine.Verdict, log logr.Logger) {
	if err := u.Actuator.Evict(ctx, s.Pod, s.VPA, verdict); err != nil {
		failedEvictions.WithLabelValues(s.VPA.Name, s.VPA.Namespace, "EvictionError").Inc()
		log.Error(err, "the eviction was refused; trying again next cycle", "rule", verdict.Rule)
		return
	}
	if s.Pod.Status.Phase != corev1.PodPending {
		group.Disrupted++
	}
	evictedPods.WithLabelValues(s.VPA.Name, s.VPA.Namespace).Inc()
	log.Info("pod evicted", "rule", verdict.Rule, "reason", verdict.Reason)
}

// resize returns the API server's refusal; nil when the resize was taken.
func (u *Updater) resize(ctx context.Context, s *facts.PodState, group *facts.Group, verdict engine.Verdict, log logr.Logger) error {
	if err := u.Actuator.Resize(ctx, s.Pod, s.VPA, s.Change, verdict); err != nil {
		failedResizes.WithLabelValues(s.VPA.Name, s.VPA.Namespace, "InPlaceUpdateError").Inc()
		log.Error(err, "the resize was refused", "rule", verdict.Rule)
		return err
	}
	group.Disrupted++
	resizedPods.WithLabelValues(s.VPA.Name, s.VPA.Namespace).Inc()
	log.Info("pod resized in place", "rule", verdict.Rule, "reason", verdict.Reason)
	return nil
}

// groups counts the pods of each direct owner.
func (u *Updater) groups(ctx context.Context, pods []*corev1.Pod, log logr.Logger) map[target.Key]*facts.Group {
	groups := map[target.Key]*facts.Group{}
	for _, pod := range pods {
		owner, _ := target.DirectOwner(pod)
		g := groups[owner]
		if g == nil {
			g = &facts.Group{}
			groups[owner] = g
		}
		g.Live++
		if pod.Status.Phase != corev1.PodPending {
			g.Running++
		}
	}
	for owner, g := range groups {
		configured, err := u.Resolver.Replicas(ctx, owner, g.Live)
		if err != nil {
			log.V(4).Info("the replicas of a group are not known", "owner", owner.String(), "error", err.Error())
		}
		g.Configured = configured
	}
	return groups
}
