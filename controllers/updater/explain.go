package updater

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/limitranges"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// maxExplained is how many pods of a VPA are explained; more are counted.
const maxExplained = 500

// Explain says what a cycle that starts now would do with the pods of a VPA, provided that the API
// server carries out what it is asked for and that other VPAs leave it the limits of the process. It
// decides as cycles do, with all that is remembered, but neither remembers, counts nor logs anything.
// It reads the pods and VPAs of one namespace from the cache, and the status lease from the API
// server.
func (u *Updater) Explain(ctx context.Context, namespace, name string) (out answers.Updater, err error) {
	defer func() {
		if p := recover(); p != nil {
			panics.Inc()
			u.Log.Error(fmt.Errorf("panic: %v", p), "panic; please report this", "consequence", "VPA not explained", "namespace", namespace, "vpa", name, "stack", string(debug.Stack()))
			err = fmt.Errorf("explaining VerticalPodAutoscaler %s/%s: panic: %v; please report this with the log of the updater", namespace, name, p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, u.Interval)
	defer cancel()
	r := u.newRun()
	r.Log = logr.Discard()
	e := &explanation{run: r, left: r.allowance(), ending: map[string]int{}}
	if err := e.read(ctx, namespace, name); err != nil {
		return out, err
	}
	if u.Admission != nil {
		if err := u.Admission(ctx); err != nil {
			r.noAdmission = err.Error()
		}
	}
	e.out.NoAdmission, e.out.LastCycle, e.out.NextCycle = r.noAdmission, u.LastCycle(), u.NextCycle()
	if e.left.limited {
		first := e.left.first
		e.out.FirstCycles = &first
	}
	verdict := e.vpa.Verdict(matcher.Update)
	e.out.Rules, e.out.Decisions = policy.DescribeRules(e.vpa.Rules), u.Decisions.Of(types.NamespacedName{Namespace: namespace, Name: name})
	if e.out.Ignored = e.vpa.Ignored(matcher.Update); e.out.Ignored == "" && !e.vpa.Takes(matcher.Update) {
		e.out.Ignored, e.out.IgnoredRule = verdict.Reason, verdict.Rule
	}
	e.assign(ctx)
	if err := e.decide(ctx); err != nil {
		return out, err
	}
	e.out.Pods = append(e.out.Pods, e.idle...)
	if more := len(e.out.Pods) - maxExplained; more > 0 {
		e.out.Pods, e.out.MorePods = e.out.Pods[:maxExplained], more
	}
	return e.out, nil
}

// explanation is an Explain that is under way.
type explanation struct {
	*run
	vpa    *matcher.VPA
	vpas   matcher.Targets // of the namespace
	pods   []corev1.Pod
	limits *facts.LimitRanges
	left   allowance
	ending map[string]int // boosts that end, by owner

	work workload // with the pods that it decides on, as a cycle does
	idle []answers.RunningPod
	out  answers.Updater
}

// read reads the objects of the namespace.
func (e *explanation) read(ctx context.Context, namespace, name string) error {
	var vpas vpav1.VerticalPodAutoscalerList
	if err := e.Client.List(ctx, &vpas, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the VerticalPodAutoscalers of namespace %s: %w", namespace, err)
	}
	var pods corev1.PodList
	if err := e.Client.List(ctx, &pods, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the pods of namespace %s: %w", namespace, err)
	}
	e.pods = pods.Items
	e.vpas = matcher.Targets{}
	for i := range vpas.Items {
		v := matcher.New(e.rules, &vpas.Items[i], e.Log)
		e.vpas.Add(v)
		if v.Object.Name == name {
			e.vpa = v
		}
	}
	if e.vpa == nil {
		return fmt.Errorf("there is no VerticalPodAutoscaler %s/%s", namespace, name)
	}
	if !e.Namespaces.Serve(namespace) {
		return fmt.Errorf("this updater does not serve namespace %s", namespace)
	}
	var err error
	e.limits, err = limitranges.Of(ctx, e.Client, namespace)
	return err
}

// assign finds the pods that the target of the VPA selects, and sorts out those that it does not
// decide on.
func (e *explanation) assign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, part(e.Interval, assignShare))
	defer cancel()
	e.work.vpa, e.work.rules = e.vpa.Object, e.vpa.Rules
	for i := range e.pods {
		pod := &e.pods[i]
		top, err := e.Resolver.Topmost(ctx, pod)
		if err != nil || top == nil || e.vpa.Object.Unreadable() != "" {
			continue
		}
		if selects, _ := top.Selects(ctx, e.vpa.Object, pod); !selects {
			continue
		}
		by, admitted := e.match(ctx, top, pod, e.vpas)
		switch {
		case by != nil && by != e.vpa:
			e.leave(pod, by.Object, engine.Verdict{Reason: fmt.Sprintf("VerticalPodAutoscaler %s/%s controls it (point vpa.order)", by.Object.Namespace, by.Object.Name)})
		case podupdate.IgnoredReason(pod) != "":
			e.leave(pod, e.vpa.Object, engine.Verdict{Reason: podupdate.IgnoredReason(pod)})
		case e.memory.IsGone(pod.UID, e.now):
			e.leave(pod, e.vpa.Object, engine.Verdict{Reason: "The pod was evicted, or may have been, and the cache does not show it yet"})
		default:
			e.work.pods = append(e.work.pods, pod)
			e.work.replacedBy(pod, admitted)
		}
	}
}

// leave notes a pod that is ignored.
func (e *explanation) leave(pod *corev1.Pod, v *vpav1.VerticalPodAutoscaler, why engine.Verdict) {
	e.idle = append(e.idle, answers.RunningPod{PlannedPod: podupdate.LeftAlone(pod, v, why)})
}

// decide plans for the pods of the VPA one after the other, as updateVPA does.
func (e *explanation) decide(ctx context.Context) error {
	w := &e.work
	groups := e.groups(ctx, w, e.Log)
	for owner, g := range groups {
		held := e.memory.Breaker.Preview(owner, podsOf(e.pods, owner), g, e.now)
		e.out.Groups = append(e.out.Groups, groupOf(owner, g, held, e.now))
	}
	slices.SortFunc(e.out.Groups, func(a, b answers.Group) int { return strings.Compare(a.Owner, b.Owner) })
	if !e.vpa.Takes(matcher.Update) {
		for _, pod := range w.pods {
			if err := e.ignored(ctx, pod); err != nil {
				return err
			}
		}
		return nil
	}
	preview := &preview{allowance: &e.left}
	step := e.step(w, preview, e.Log)
	step.Dry = true
	list := e.candidates(step, w, e.limits, groups, e.Log)
	podupdate.Sort(list)
	for _, c := range list {
		preview.later = ""
		step.Take(c)
		if err := e.describe(ctx, step, c, preview.later); err != nil {
			return err
		}
	}
	return nil
}

// ignored describes a pod whose VPA leaves running pods alone. Startup boosts end all the same.
func (e *explanation) ignored(ctx context.Context, pod *corev1.Pod) error {
	trace := &engine.Trace{}
	verdict := engine.Verdict{}
	if err := e.vpa.Rules.Err; err != nil {
		verdict.Reason = "The rules that the VPA asks for cannot be used: " + err.Error()
	} else {
		verdict = matcher.Ask(e.vpa.Rules.Plan, matcher.Update, e.vpa.Object, trace)
	}
	if p, unboost, err := e.unboost(ctx, pod, verdict, trace); err != nil || p != nil {
		if err == nil {
			e.out.Pods = append(e.out.Pods, answers.RunningPod{PlannedPod: podupdate.Planned(p, unboost, trace)})
		}
		return err
	}
	e.leave(pod, e.vpa.Object, verdict)
	return nil
}

// describe adds the decision on a pod to the explanation.
func (e *explanation) describe(ctx context.Context, step *podupdate.Step, c *podupdate.Candidate, later string) error {
	if len(e.out.Pods) >= maxExplained {
		e.out.MorePods++
		return nil
	}
	pod, trace := c.Request.Pod, &engine.Trace{}
	matcher.Ask(step.Plan, matcher.Update, step.VPA, trace)
	traced, _ := step.Candidate(c.Request, &c.Asked, trace)
	step.Decide(traced)
	verdict := traced.Verdict
	running := answers.RunningPod{PlannedPod: podupdate.Planned(traced.Pod, verdict, trace), Later: later, Infeasible: requestsText(c.Request.Infeasible),
		Evictions: refusalsOf(c.Evictions, e.now), Resizes: refusalsOf(c.Resizes, e.now)}
	if postponed := e.postponed.Load(); postponed != nil {
		running.Postponed = (*postponed)[pod.UID]
	}
	if !podupdate.Acts(verdict.Do) {
		trace := &engine.Trace{}
		p, unboost, err := e.unboost(ctx, pod, verdict, trace)
		if err != nil {
			return err
		}
		if p != nil {
			running.PlannedPod = podupdate.Planned(p, unboost, trace)
		}
	}
	e.out.Pods = append(e.out.Pods, running)
	return nil
}

// unboost says what becomes of the startup boost of a pod that an update leaves alone; p is nil if
// there is nothing to say.
func (e *explanation) unboost(ctx context.Context, pod *corev1.Pod, update engine.Verdict, trace *engine.Trace) (p *podupdate.Pod, verdict engine.Verdict, err error) {
	if !facts.Boosted(pod) {
		return nil, verdict, nil
	}
	top, err := e.Resolver.Topmost(ctx, pod)
	if err != nil || top == nil || matcher.Match(ctx, matcher.Boost, top, e.vpas.Of(top.Key), pod, nil) != e.vpa {
		return nil, verdict, nil
	}
	if e.boosts == nil { // rules say why nothing ends boosts
		c, _ := e.step(&e.work, nil, e.Log).Candidate(e.request(&e.work, pod, e.limits), &facts.Group{}, trace)
		p = c.Pod
		verdict = p.DecideUnboost(e.vpa.Rules.Plan, facts.Group{}, trace)
		if verdict.Do != facts.DoSkip || !podupdate.PreferUnboost(update, verdict) {
			return nil, verdict, nil
		}
		return p, verdict, nil
	}
	owner := ownerName(pod)
	p, verdict, err = e.boosts.preview(ctx, pod, e.vpa, e.ending[owner], trace)
	if err != nil || !podupdate.PreferUnboost(update, verdict) {
		return nil, verdict, err
	}
	if podupdate.Resizes(verdict.Do) {
		e.ending[owner]++
	}
	return p, verdict, nil
}

// groupOf describes a group at the start of a cycle.
func groupOf(owner target.Key, g *facts.Group, held string, now time.Time) answers.Group {
	return answers.Group{
		Owner: ownerText(owner), Configured: g.Configured, Live: g.Live, Running: g.Running, Ready: g.Ready, Disrupted: g.Disrupted,
		Evictions: refusalsOf(g.Evictions, now), Resizes: refusalsOf(g.Resizes, now), Unchanged: g.Unchanged, HeldBy: held,
	}
}

// refusalsOf is nil without refusals.
func refusalsOf(r facts.Refusals, now time.Time) *answers.Refusals {
	if r.Times == 0 {
		return nil
	}
	return &answers.Refusals{Times: r.Times, Last: now.Add(-r.Age).UTC(), Message: r.Message}
}

// ownerText is kind/name; empty for pods without owner.
func ownerText(owner target.Key) string {
	if owner.Name == "" {
		return ""
	}
	return owner.Kind + "/" + owner.Name
}

func ownerName(pod *corev1.Pod) string {
	owner, _ := target.DirectOwner(pod)
	return owner.String()
}

// podsOf are the pods of a direct owner.
func podsOf(pods []corev1.Pod, owner target.Key) (out []*corev1.Pod) {
	for i := range pods {
		if of, _ := target.DirectOwner(&pods[i]); of == owner {
			out = append(out, &pods[i])
		}
	}
	return out
}

// requestsText lists requests by container, such as "app: cpu 4, memory 8Gi"; empty for none.
func requestsText(r facts.Requests) string {
	var out []string
	for _, container := range slices.Sorted(maps.Keys(r)) {
		var amounts []string
		for _, resource := range facts.ScaledResources {
			if q, ok := r[container][resource]; ok {
				amounts = append(amounts, string(resource)+" "+q.String())
			}
		}
		if len(amounts) == 0 {
			continue
		}
		if container == "" {
			container = "the pod"
		}
		out = append(out, container+": "+strings.Join(amounts, ", "))
	}
	return strings.Join(out, "; ")
}
