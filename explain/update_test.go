package explain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/explain/ask"
)

func planned(name, action, rule, class string, changes ...answers.Change) answers.RunningPod {
	return answers.RunningPod{PlannedPod: answers.PlannedPod{Pod: "shop/" + name, VPA: "shop/web", Action: action, Rule: rule, Class: class, Reason: "Because of " + rule, Until: "Later", Change: changes}}
}

func composed(v *vpav1.VerticalPodAutoscaler, told *ask.Result, pods ...corev1.Pod) *Report {
	r := &Report{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Mode: v.Mode(), Findings: []Finding{}}
	r.compose(&objects{vpa: v, pods: pods}, told)
	r.Verdict = verdict(r, told.Updater, r.Now)
	return r
}

// TestTheVerdictIsWhatTheUpdaterDoesNext: actions first, then the most urgent blocker.
func TestTheVerdictIsWhatTheUpdaterDoesNext(t *testing.T) {
	v := vpaOf("web", "Deployment", "web")
	soon := time.Date(2026, 1, 1, 0, 0, 40, 0, time.UTC)
	more := answers.Change{Container: "app", Field: "requests.cpu", From: "100m", To: "250m"}
	evicts := planned("a", "Evict", "update/evict", "", more)
	waits := planned("b", "Wait", "update/budget-spent", "Waiting")
	broken := planned("c", "Skip", "update/too-few-replicas", "Misconfigured")
	fine := planned("d", "Skip", "update/nothing-to-change", "Settled")
	for name, tt := range map[string]struct {
		pods []answers.RunningPod
		want Verdict
	}{
		"an action": {[]answers.RunningPod{waits, evicts, broken}, Verdict{"update/evict", "Evict",
			"1 of 3 pods will be evicted in 40s, first a: Because of update/evict (container app: requests.cpu 100m → 250m)"}},
		"two actions": {[]answers.RunningPod{evicts, planned("e", "InPlace", "update/resize", "", more), evicts}, Verdict{"update/evict", "Evict",
			"2 of 3 pods will be evicted, and 1 resized in place, in 40s, first a: Because of update/evict (container app: requests.cpu 100m → 250m)"}},
		"a fault":         {[]answers.RunningPod{fine, waits, broken}, Verdict{"update/too-few-replicas", "Skip", "blocked: because of update/too-few-replicas"}},
		"a wait":          {[]answers.RunningPod{waits, fine}, Verdict{"update/budget-spent", "Wait", "waiting: because of update/budget-spent"}},
		"nothing":         {[]answers.RunningPod{fine}, Verdict{"update/nothing-to-change", "Skip", "nothing to do: because of update/nothing-to-change"}},
		"without any pod": {nil, Verdict{Token: "no-pods", Text: "there are no pods to change"}},
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
		planned("b", "Wait", "update/budget-spent", "Waiting"), planned("a", "Wait", "update/budget-spent", "Waiting"), planned("c", "Skip", "update/pod-gone", "Settled")}}})
	require.Equal(t, []Finding{
		{Token: "update/budget-spent", Class: Waiting, About: "2 pods: b, a", Text: "Because of update/budget-spent", WayOut: "Later"},
		{Token: "update/pod-gone", Class: Settled, About: "pod c", Text: "Because of update/pod-gone", WayOut: "Later"},
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
	require.Equal(t, []string{"limit-above-max-allowed: maxAllowed memory 500Mi bounds the request only; a new pod would get the limit 1000Mi: " +
		"the request would be 500Mi (now 100Mi), and the limit follows from it (now 200Mi), by proportional-limits/follow/request"}, tokensOf(r.Findings))
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
	require.Equal(t, []string{"no-samples: the recommender sees 1 pod and no usage of them"}, with(func(*vpav1.VerticalPodAutoscaler, *objects, *answers.Recommender) {}))
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
	require.Equal(t, []string{"samples-stale: its last CPU sample is 1h0m0s old, of 9"}, with(func(v *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		r.Containers, r.Recommendation, v.Status.Recommendation = []answers.Container{usageOf(9, now.Add(-2*time.Hour), now.Add(-time.Hour))}, target("1"), target("1")
	}))
	require.Equal(t, []string{"too-few-samples: there are 2 CPU and 2 memory samples, too few to recommend"}, with(func(_ *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		r.Containers, r.Recommendation = []answers.Container{usageOf(2, now, now)}, &vpav1.RecommendedPodResources{}
	}))
	require.Equal(t, []string{"recommendation-pending: the recommender now computes other targets than the status has"}, with(func(v *vpav1.VerticalPodAutoscaler, _ *objects, r *answers.Recommender) {
		r.Containers, r.Recommendation, v.Status.Recommendation = []answers.Container{usageOf(9, now, now)}, target("2"), target("1")
	}))
}
