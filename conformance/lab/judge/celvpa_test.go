package judge

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/conformance/workloads"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podpatch"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/webhook/podreview"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// gates are celvpa's, each of which changes what pods get.
var gates = []string{"PodLevelResources", "RequestToLimitRatio", "MemoryPerCPURatio", "CPUStartupBoost", "PerVPAConfig", "InPlace"}

// cluster is celvpa with a set of gates.
type cluster struct {
	name string
	book *compile.Rulebook
}

// clusters are those with all gates, with none, and with each alone. Rules are loaded once for each.
func clusters(t testing.TB) []cluster {
	t.Helper()
	out := []cluster{load(t, "all gates", gates...), load(t, "no gate")}
	for _, gate := range gates {
		out = append(out, load(t, gate, gate))
	}
	return out
}

// load loads the rules with some gates on, and compiles nothing twice.
func load(t testing.TB, name string, gates ...string) cluster {
	t.Helper()
	on := map[string]bool{}
	for _, gate := range gates {
		on[gate] = true
	}
	book, err := policy.Load(policy.Options{Gates: on, Cache: compiled})
	require.NoError(t, err)
	return cluster{name, book}
}

var compiled = &compile.Cache{}

// refusal says why celvpa's webhook or the CRD refuses a VPA; empty = they do not.
func (c cluster) refusal(w *workloads.Workload) string {
	text, err := json.Marshal(w.VPA)
	must(err)
	request := vpareview.Read(text, nil, w.VPA.Namespace)
	request.CRD = policy.For(c.book, w.VPA).Plan
	for _, cause := range vpareview.Review(request.CRD, request).Causes {
		return cause.Rule + ": " + cause.Message
	}
	return ""
}

// step is when the API server is asked about a pod.
type step string

const (
	created    step = "admission"
	resized    step = "resize of the pod as written"
	resizedNew step = "resize of the pod as admitted"
	replaced   step = "admission of the pod that replaces it" // for a later recommendation
)

// verdict is what became of a workload's pods.
type verdict struct {
	refused map[step]*Refusal
	patched bool
	acts    int // evictions and resizes of the pod as written and as admitted
	// by celvpa's own rules, pod.validate
	refusedByRules string

	before, after *corev1.Pod // as stored, and as admitted; after also where it is refused
	sent          *corev1.Pod // what was refused last after admission
}

// judge lets celvpa change the pods of a workload that is valid as written.
func (c cluster) judge(n *Namespace, w *workloads.Workload) (out verdict) {
	out.refused = map[step]*Refusal{}
	written, refused := n.Create(w.Pod)
	if refused != nil {
		panic("not valid as written: " + refused.Error())
	}
	out.before = written
	limits := folded(n)
	admitted := c.admit(n, w, limits, &out)
	c.update(n, w, limits, written, resized, &out)
	if admitted != nil {
		c.later(n, w, limits, admitted, &out)
	}
	return out
}

// later is what becomes of the admitted pod once its VPA has another recommendation.
func (c cluster) later(n *Namespace, w *workloads.Workload, limits *facts.LimitRanges, admitted *corev1.Pod, out *verdict) {
	later := *w
	if later.Later != nil {
		later.VPA = w.VPA.DeepCopy()
		later.VPA.Status.Recommendation = w.Later
	}
	if !c.update(n, &later, limits, admitted, resizedNew, out) || w.Later == nil {
		return
	}
	again := verdict{refused: map[step]*Refusal{}}
	c.admit(n, &later, limits, &again)
	if refused := again.refused[created]; refused != nil {
		out.refused[replaced], out.sent = refused, again.after
	}
}

// folded are the LimitRanges of a namespace as rules see them; nil without any.
func folded(n *Namespace) *facts.LimitRanges {
	ranges := n.LimitRanges()
	if len(ranges) == 0 {
		return nil
	}
	return facts.FoldLimitRanges(ranges)
}

// admit is the pod as admitted, nil if it is refused.
func (c cluster) admit(n *Namespace, w *workloads.Workload, limits *facts.LimitRanges, out *verdict) *corev1.Pod {
	pod := n.BeforeWebhooks(w.Pod)
	request := podreview.Request{Pod: pod, Limits: limits}
	v := matcher.New(c.book, w.VPA, logr.Discard())
	if v.Takes(matcher.Admission) {
		request.VPA = w.VPA
	}
	answer := podreview.Review(v.Rules.Plan, request, nil)
	if !answer.Allowed() {
		out.refusedByRules = answer.Causes[0].Rule
		return nil
	}
	out.patched = len(podpatch.Resources(pod, answer.Change)) > 0
	after, err := simulate.Patched(pod, answer.Patch)
	must(err)
	stored, refused := n.Create(after)
	if refused != nil {
		out.refused[created], out.after = refused, after
		return nil
	}
	out.after = stored
	return stored
}

var now = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// running is a stored pod that has run for long, ready.
func running(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.UID, out.ResourceVersion, out.Spec.NodeName = "u", "1", "node"
	out.Status.Phase, out.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: now.Add(-100 * time.Hour)}
	out.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: *out.Status.StartTime}}
	return out
}

// update asks the updater about a running pod, and reports whether it is evicted. A resize must be
// accepted.
func (c cluster) update(n *Namespace, w *workloads.Workload, limits *facts.LimitRanges, stored *corev1.Pod, as step, out *verdict) (evicted bool) {
	pod, plan := running(stored), policy.For(c.book, w.VPA).Plan
	leaves := matcher.Ask(plan, matcher.Update, w.VPA, nil).Do != facts.DoApply
	if leaves && !facts.Boosted(pod) {
		return false
	}
	assessed, _ := podupdate.Assess(plan, podupdate.Request{Pod: pod, VPA: w.VPA, Limits: limits, Now: now}, nil)
	group := facts.Group{Configured: 3, Live: 3, Running: 3, Ready: 3}
	do := facts.DoSkip
	if !leaves {
		verdict := assessed.Decide(plan, group, nil)
		do = verdict.Do
		assessed.Change = podupdate.ChangeOf(assessed, verdict)
	}
	if !podupdate.Acts(do) && facts.Boosted(pod) {
		verdict := assessed.DecideUnboost(plan, group, nil)
		do = verdict.Do
		assessed.Change = podupdate.ChangeOf(assessed, verdict)
	}
	switch {
	case do == facts.DoEvict:
		out.acts++
		return true
	case podupdate.Resizes(do):
		out.acts++
		after, err := simulate.Patched(pod, podpatch.Resources(pod, assessed.Change))
		must(err)
		if _, refused := n.Resize(pod, after); refused != nil {
			out.refused[as], out.sent = refused, after
		}
	}
	return false
}
