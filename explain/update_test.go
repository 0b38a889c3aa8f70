package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/explain/ask"
)

func planned(name, action, rule, class string, changes ...answers.Change) answers.RunningPod {
	return answers.RunningPod{PlannedPod: answers.PlannedPod{Pod: "shop/" + name, VPA: "shop/web", Action: action, Rule: rule, Class: class, Reason: "Because of " + rule, Until: "Later", Change: changes}}
}

func composed(v *vpav1.VerticalPodAutoscaler, replies *ask.Result, pods ...corev1.Pod) *Report {
	r := &Report{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Mode: v.Mode(), Findings: []Finding{}}
	o := &objects{vpa: v, pods: pods}
	o.ruledBy(shippedRules())
	r.compose(o, replies)
	r.Verdict = verdict(r, replies.Updater, r.Now)
	return r
}

// TestTheVerdictIsWhatTheUpdaterDoesNext: actions first, then the most urgent blocker.
func TestTheVerdictIsWhatTheUpdaterDoesNext(t *testing.T) {
	v := vpaOf("web", "Deployment", "web")
	soon := time.Date(2026, 1, 1, 0, 0, 40, 0, time.UTC)
	more := answers.Change{Container: "app", Field: "requests.cpu", From: "100m", To: "250m"}
	evicts := planned("a", "Evict", "update/evict", "", more)
	waits := planned("b", "Wait", "update/budget-spent", "Waiting")
	broken := planned("c", "Skip", "eligibility/too-few-replicas", "Misconfigured")
	fine := planned("d", "Skip", "eligibility/nothing-to-change", "Settled")
	for name, tt := range map[string]struct {
		pods []answers.RunningPod
		want Verdict
	}{
		"an action": {[]answers.RunningPod{waits, evicts, broken}, Verdict{"update/evict", "Evict",
			"1 of 3 pods will be evicted in 40s, first a: Because of update/evict (container app: requests.cpu 100m → 250m)"}},
		"two actions": {[]answers.RunningPod{evicts, planned("e", "InPlace", "update/resize", "", more), evicts}, Verdict{"update/evict", "Evict",
			"2 of 3 pods will be evicted, and 1 resized in place, in 40s, first a: Because of update/evict (container app: requests.cpu 100m → 250m)"}},
		"a fault":         {[]answers.RunningPod{fine, waits, broken}, Verdict{"eligibility/too-few-replicas", "Skip", "blocked: because of eligibility/too-few-replicas"}},
		"a wait":          {[]answers.RunningPod{waits, fine}, Verdict{"update/budget-spent", "Wait", "waiting: because of update/budget-spent"}},
		"nothing":         {[]answers.RunningPod{fine}, Verdict{"eligibility/nothing-to-change", "Skip", "nothing to do: because of eligibility/nothing-to-change"}},
		"without any pod": {nil, Verdict{Token: "no-pods", Text: "no pods to change"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, composed(v, &ask.Result{Updater: &answers.Updater{Pods: tt.pods, NextCycle: &soon}}).Verdict)
		})
	}
	late := evicts
	late.Later = "first-cycles"
	require.Equal(t, Verdict{"update/evict", "Wait", "waiting: because of update/evict"}, composed(v, &ask.Result{Updater: &answers.Updater{Pods: []answers.RunningPod{late, waits}}}).Verdict, "it waits for a later cycle")
}

func TestPodsWithTheSameRuleAreOneFinding(t *testing.T) {
	r := composed(vpaOf("web", "Deployment", "web"), &ask.Result{Updater: &answers.Updater{Pods: []answers.RunningPod{
		planned("b", "Wait", "update/budget-spent", "Waiting"), planned("a", "Wait", "update/budget-spent", "Waiting"), planned("c", "Skip", "resize/pod-gone", "Settled")}}})
	require.Equal(t, []Finding{
		{Token: "update/budget-spent", Class: Waiting, About: "2 pods: b, a", Text: "Because of update/budget-spent", WayOut: "Later"},
		{Token: "resize/pod-gone", Class: Settled, About: "pod c", Text: "Because of resize/pod-gone", WayOut: "Later"},
	}, r.Findings)
}

// TestWhatANewPodWouldGet stands beside what each pod has.
func TestWhatANewPodWouldGet(t *testing.T) {
	v := vpaOf("web", "Deployment", "web")
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{ContainerName: "*", MaxAllowed: corev1.ResourceList{"memory": resource.MustParse("500Mi")}}}}
	p := pod("a", nil)
	p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"memory": resource.MustParse("100Mi")}, Limits: corev1.ResourceList{"memory": resource.MustParse("200Mi")}}}}
	one := planned("a", "Evict", "update/evict", "", answers.Change{Container: "app", Field: "requests.memory", From: "100Mi", To: "500Mi"}, answers.Change{Container: "app", Field: "limits.memory", From: "200Mi", To: "1000Mi"})
	one.Steps = []engine.Step{{RuleSet: "proportional-limits", Stage: "follow", Rule: "request", Item: "app", Field: "limits.memory", To: "1000Mi"}}
	r := composed(v, &ask.Result{Updater: &answers.Updater{Pods: []answers.RunningPod{one}}}, p)
	require.Equal(t, []PodContainer{{"app", "requests.memory", "100Mi", "500Mi"}, {"app", "limits.memory", "200Mi", "1000Mi"}}, r.Pods[0].Containers)
	require.Equal(t, []string{"limit-above-max-allowed: a new pod would get the memory limit 1000Mi, by proportional-limits/follow/request: " +
		"maxAllowed 500Mi bounds requests only; the request would be 500Mi (now 100Mi), and the limit follows from it (now 200Mi)"}, tokensOf(r.Findings))
}

func usageOf(samples int, first, last time.Time) answers.Container {
	return answers.Container{Name: "app", Present: true, Samples: samples, MemorySamples: samples, FirstSample: &first, LastSample: &last}
}

// TestWhyThereIsNoRecommendation, or an old one.
func TestWhyThereIsNoRecommendation(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	with := func(change func(v *vpav1.VerticalPodAutoscaler, o *objects, r *answers.Recommender)) []string {
		v := vpaOf("web", "Deployment", "web")
		o := &objects{vpa: v, pods: []corev1.Pod{pod("a", nil)}}
		r := &answers.Recommender{Known: true, Pods: 1}
		change(v, o, r)
		return tokensOf(recommendationFindings(o, r, now))
	}
	target := func(cpu string) *vpav1.RecommendedPodResources {
		return &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
	}
	require.Equal(t, []string{"no-samples: the recommender sees 1 pod, but no usage"}, with(func(*vpav1.VerticalPodAutoscaler, *objects, *answers.Recommender) {}))
	require.Equal(t, []string{"no-samples: the recommender sees 1 pod, but no usage of this container"}, with(func(_ *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		off := usageOf(9, now, now) // it alone is sampled, and is not scaled
		off.Name, off.Steps = "proxy", []engine.Step{{RuleSet: "scaling-mode", Rule: "off", To: facts.DoIgnore}}
		idle := off
		idle.Name, idle.Samples, idle.MemorySamples = "idle", 0, 0
		r.Containers = []answers.Container{usageOf(0, now, now), idle, off}
	}))
	require.Equal(t, []string{"target-unusable: Deployment shop/web does not exist"}, with(func(_ *vpav1.VerticalPodAutoscaler, o *objects, _ *answers.Recommender) {
		o.problem = "Deployment shop/web does not exist"
	}))
	require.Equal(t, []string{"other-recommender: the VPA asks for recommender mine, and the one that runs does not serve it"}, with(func(v *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		v.Spec.Recommenders, r.Known = []*vpav1.VerticalPodAutoscalerRecommenderSelector{{Name: "mine"}, nil}, false
	}))
	require.Equal(t, []string{"pipeline-gone: no pipeline lean@2"}, with(func(v *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		v.Status.Conditions = []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.RulesApplied, Status: corev1.ConditionFalse, Reason: "RulesNotFound", Message: "no pipeline lean@2", LastTransitionTime: metav1.NewTime(now)}}
		r.Containers, r.Recommendation, v.Status.Recommendation = []answers.Container{usageOf(9, now, now)}, target("1"), target("1")
	}))
	require.Equal(t, []string{"samples-stale: the last of its 9 CPU samples is 1h0m0s old"}, with(func(v *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		r.Containers, r.Recommendation, v.Status.Recommendation = []answers.Container{usageOf(9, now.Add(-2*time.Hour), now.Add(-time.Hour))}, target("1"), target("1")
	}))
	require.Equal(t, []string{"too-few-samples: there are 2 CPU and 2 memory samples, too few for a recommendation"}, with(func(_ *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		r.Containers, r.Recommendation = []answers.Container{usageOf(2, now, now)}, &vpav1.RecommendedPodResources{}
		r.Containers[0].Steps = []engine.Step{{RuleSet: "estimate", Stage: "unknown", Rule: "too-few-samples", Field: "unknown.memory", To: "true"}}
	}))
	require.Empty(t, with(func(v *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		v.Status.Recommendation = &vpav1.RecommendedPodResources{}
		r.Containers, r.Recommendation = []answers.Container{usageOf(303, now, now)}, &vpav1.RecommendedPodResources{}
		r.Containers[0].Steps = []engine.Step{{RuleSet: "controlled-resources", Stage: "drop", Rule: "not-controlled", Item: "target", Field: "now.cpu", From: "10m"}}
	}), "the VPA controls no resource of it")
	require.Empty(t, with(func(v *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		off := usageOf(303, now.Add(-2*time.Hour), now.Add(-time.Hour))
		off.Name, off.Steps = "sidecar", []engine.Step{{RuleSet: "container-mode", Rule: "mode-off", To: "Ignore"}}
		r.Containers, r.Recommendation, v.Status.Recommendation = []answers.Container{usageOf(9, now, now), off}, target("1"), target("1")
	}), "a sidecar in mode Off has no recommendation, however many samples there are")
	require.Equal(t, []string{"too-few-samples: there are 0 CPU and 2 memory samples, too few for a recommendation"}, with(func(_ *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		r.Containers = []answers.Container{{Name: "app", Present: true, MemorySamples: 2}}
		r.Containers[0].Steps = []engine.Step{{RuleSet: "estimate", Stage: "unknown", Rule: "too-few-samples", Field: "unknown.cpu", To: "true"}}
	}), "a source may have memory alone")
	require.Equal(t, []string{"recommendation-pending: there are 0 CPU and 2 memory samples, and the recommendation is not written yet"}, with(func(_ *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		r.Containers, r.Recommendation = []answers.Container{{Name: "app", Present: true, MemorySamples: 2}}, target("1")
	}))
	require.Equal(t, []string{"recommendation-pending: the recommender has computed new targets, which are not in the status yet"}, with(func(v *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		r.Containers, r.Recommendation, v.Status.Recommendation = []answers.Container{usageOf(9, now, now)}, target("2"), target("1")
	}))
	require.Equal(t, []string{"oom-counted: it ran out of memory at 2026-01-01T00:00:00Z with 1Gi, which counts as a sample of 2Gi", "recommendation-pending: the recommender has computed new targets, which are not in the status yet"},
		with(func(v *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
			c := usageOf(9, now, now)
			c.OOMs = []answers.OOM{{Pod: "a", Time: now, Reported: "1Gi", Outcome: counts, CountsAs: "2Gi"}}
			r.Containers, r.Recommendation, v.Status.Recommendation = []answers.Container{c}, target("2"), target("1")
		}), "just after an OOM kill")
}

// Regression: limits that a VPA leaves alone, that equal maxAllowed (25m looked like more than 25m), or that are the pod's were
// reported to be above maxAllowed, with a way out that was taken already.
func TestOnlyLimitsThatRulesSetAboveMaxAllowedAreReported(t *testing.T) {
	tokens := func(limit string, rule bool, policies vpav1.PodResourcePolicy) []string {
		v := vpaOf("web", "Deployment", "web")
		v.Spec.ResourcePolicy = &policies
		p := pod("a", nil)
		p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("200m")}}
		p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(limit)}}}}
		one := planned("a", "Skip", "", "")
		if rule {
			one.Steps = []engine.Step{{RuleSet: "proportional-limits", Stage: "follow", Rule: "request", Item: "app", Field: "limits.cpu", To: limit},
				{RuleSet: "pod-limits", Stage: "follow", Rule: "request", Item: "pod", Field: "limits.cpu", To: "200m"}}
		}
		return tokensOf(composed(v, &ask.Result{Updater: &answers.Updater{Pods: []answers.RunningPod{one}}}, p).Findings)
	}
	all := func(most string) vpav1.PodResourcePolicy {
		return vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{ContainerName: "*", MaxAllowed: corev1.ResourceList{"cpu": resource.MustParse(most)}}}}
	}
	require.Empty(t, tokens("25m", true, all("25m")))
	require.Empty(t, tokens("2", false, all("1")), "no rule sets it")
	require.Equal(t, []string{"limit-above-max-allowed: a new pod would get the cpu limit 1050m, by proportional-limits/follow/request: maxAllowed 1 bounds requests only"}, tokens("1050m", true, all("1")))
	require.Empty(t, tokens("50m", true, all("100m")), "the wildcard policy is not for the whole pod, which has a limit of 200m")
	ofPod := vpav1.PodResourcePolicy{PodPolicies: &vpav1.PodPolicies{MaxAllowed: corev1.ResourceList{"cpu": resource.MustParse("150m")}}}
	require.Equal(t, []string{"limit-above-max-allowed: a new pod would get the cpu limit 200m, by pod-limits/follow/request: maxAllowed 150m bounds requests only"}, tokens("50m", true, ofPod))
}

// Regression: what was said about a pod was the reason for another one that the same rule decided on.
func TestAPodIsExplainedByItsOwnReason(t *testing.T) {
	young, old := planned("young", "Skip", "eligibility/within-recommended-range", "Settled"), planned("old", "Skip", "eligibility/within-recommended-range", "Settled")
	young.Reason, old.Reason = "It is only 29s old", "It is only 11h old"
	u := &answers.Updater{Pods: []answers.RunningPod{young, old}}
	r := composed(vpaOf("web", "Deployment", "web"), &ask.Result{Updater: u})
	r.only(vpaOf("web", "Deployment", "web"), u, "shop", "old")
	require.Equal(t, []Finding{{Token: "eligibility/within-recommended-range", Class: Settled, About: "pod old", Text: "It is only 11h old", WayOut: "Later"}}, r.Findings)
	require.Equal(t, "nothing to do: it is only 11h old", verdict(r, u, r.Now).Text)
}

// Regression: what is little history was decided by how much the upper bound was wider, whatever --low-confidence-below says, and
// which rule made it wider by its lack of a note.
func TestRulesSayWhatIsLittleHistory(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	v := vpaOf("web", "Deployment", "web")
	v.Status.Conditions = []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.LowConfidence, Status: corev1.ConditionTrue, Message: "of container app"}}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	tokens := func(r *answers.Recommender) []string {
		return tokensOf(recommendationFindings(&objects{vpa: v, pods: []corev1.Pod{pod("a", nil)}}, r, now))
	}
	require.Equal(t, []string{"little-history: of container app"}, tokens(nil), "nobody knows more than the condition says")

	bound := func(rule, to, note string) engine.Step {
		return engine.Step{RuleSet: "estimate", Stage: "bounds", Rule: rule, Item: "upperBound", Field: "now.cpu", To: to, Reason: note}
	}
	one := usageOf(90, now.Add(-89*time.Minute), now)
	one.Steps = []engine.Step{bound("upper-bound", "1", ""), bound("widen-upper-bound", "17", "a note of an operator")}
	r := &answers.Recommender{Known: true, Pods: 1, Recommendation: v.Status.Recommendation, Containers: []answers.Container{one}}
	require.Empty(t, tokens(r), "rules do not call it little, however wide the bound is")
	r.Containers[0].Steps = append(one.Steps, engine.Step{RuleSet: "estimate", Stage: "low-confidence", Rule: "too-little-is-known", Field: "confidence.low", To: "true"})
	require.Equal(t, []string{"little-history: history is 90 samples over 1h29m0s, which is little (estimate/low-confidence/too-little-is-known); " +
		"the upper bound of cpu is 1 by estimate/bounds/upper-bound, then 17 by estimate/bounds/widen-upper-bound"}, tokens(r))
	r.Recommendation = &vpav1.RecommendedPodResources{}
	require.NotContains(t, strings.Join(tokens(r), " "), "little-history", "there is no bound")
}

// TestLowConfidenceBelowSaysWhatIsLittleHistory with the steps of the shipped rules.
func TestLowConfidenceBelowSaysWhatIsLittleHistory(t *testing.T) {
	last := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first := last.Add(-12 * time.Hour)
	usage := model.Usage{Container: "app", Present: true, Aggregate: &model.Aggregate{CPU: model.NewCPUHistogram(24 * time.Hour), Memory: model.NewMemoryHistogram(24 * time.Hour),
		FirstSample: first, LastSample: last, Samples: 720, MemorySamples: 720}}
	usage.CPU.Add(0.2, 1, last)
	usage.Memory.Add(1<<30, 1, last)
	v := vpaOf("web", "Deployment", "web")
	tokens := func(below string) []string {
		book, err := policy.Load(policy.Options{Cache: &compiledSets, Points: []string{facts.ContainerSelect, facts.ContainerPolicy, facts.ContainerEstimate, facts.ContainerRecommend}, Params: map[string]string{"estimate.lowConfidence": below}})
		require.NoError(t, err)
		result := recommender.Recommend(book.Default(), v, model.View{Containers: []model.Usage{usage}, Pods: 1}, true)
		one := answers.Container{Name: "app", Samples: usage.Samples, FirstSample: &first, LastSample: &last, Steps: result.Explained[0].Trace.Steps()}
		return tokensOf(historyFindings(&answers.Recommender{Containers: []answers.Container{one}, Recommendation: &vpav1.RecommendedPodResources{ContainerRecommendations: result.Recommendations}}))
	}
	const bound = "; the upper bound of %s is %s by estimate/bounds/upper-bound, then %s by estimate/bounds/add-safety-margin, then %s by estimate/bounds/widen-upper-bound"
	require.Equal(t, []string{"little-history: history is 720 samples over 12h0m0s, which is little (estimate/low-confidence/too-little-is-known)" +
		fmt.Sprintf(bound, "cpu", "215m", "247m", "741m") + fmt.Sprintf(bound, "memory", "1Gi", "1.15Gi", "3.46Gi")}, tokens("1"))
	require.Empty(t, tokens("0.5"))
}
