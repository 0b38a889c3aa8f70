package explain

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/answers"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func tokensOf(list []Finding) (out []string) {
	for _, f := range list {
		out = append(out, f.Token+": "+f.Text)
	}
	return out
}

// TestEveryTokenIsListedAndUsed, so that the documentation names all of them and no other.
func TestEveryTokenIsListedAndUsed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	used := map[string]bool{}
	for _, file := range files {
		if file == "tokens.go" || regexp.MustCompile(`_test\.go$`).MatchString(file) {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`finding\("([a-z-]+)"`).FindAllSubmatch(text, -1) {
			used[string(m[1])] = true
		}
	}
	var listed []string
	for _, token := range Tokens {
		listed = append(listed, token.Name)
		require.Contains(t, precedence, token.Class, token.Name)
	}
	slices.Sort(listed)
	require.Equal(t, sortedKeys(used), listed)
}

func pod(name string, labels map[string]string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}}
}

// TestABudgetThatNeverAllowsIsAFault, and one that allows nothing now is waited for.
func TestABudgetThatNeverAllowsIsAFault(t *testing.T) {
	budget := func(name string, app string, expected, desired, healthy, allowed int32) policyv1.PodDisruptionBudget {
		return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1},
			Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, ExpectedPods: expected, DesiredHealthy: desired, CurrentHealthy: healthy, DisruptionsAllowed: allowed}}
	}
	o := &objects{vpa: vpaOf("web", "Deployment", "web"), pods: []corev1.Pod{pod("web-1", map[string]string{"app": "web"})}, budgets: []policyv1.PodDisruptionBudget{
		budget("never", "web", 3, 3, 3, 0), budget("now", "web", 3, 2, 2, 0), budget("fine", "web", 3, 2, 3, 1), budget("others", "db", 1, 1, 1, 0),
	}}
	require.Equal(t, []string{
		"budget-blocks: it requires 3 of 3 pods to be healthy, so it never allows an eviction",
		"budget-spent: 2 of 3 pods are healthy and 2 must be, so it allows no eviction now",
	}, tokensOf(o.budgetFindings()))
	require.Equal(t, "1 more healthy pods", o.budgetFindings()[1].WayOut)
}

func TestAnHPAThatDividesByTheRequestsIsNamed(t *testing.T) {
	v := vpaOf("web", "Deployment", "web")
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	hpa := func(name, target string, of corev1.ResourceName, by autoscalingv2.MetricTargetType) autoscalingv2.HorizontalPodAutoscaler {
		h := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: target}
		h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: of, Target: autoscalingv2.MetricTarget{Type: by}}}}
		return h
	}
	o := &objects{vpa: v, scalers: []autoscalingv2.HorizontalPodAutoscaler{
		hpa("same", "web", "cpu", autoscalingv2.UtilizationMetricType), hpa("average", "web", "cpu", autoscalingv2.AverageValueMetricType),
		hpa("memory", "web", "memory", autoscalingv2.UtilizationMetricType), hpa("other", "db", "cpu", autoscalingv2.UtilizationMetricType),
	}}
	got := o.scalerFindings()
	require.Len(t, got, 1)
	require.Equal(t, "HorizontalPodAutoscaler shop/same", got[0].About)
	require.Contains(t, got[0].Text, "utilization of cpu")
	o.recommendsOnly = true
	require.Empty(t, o.scalerFindings(), "such a VPA changes no request")
}

// TestAnHPAOfAnotherContainerIsNoFault: regression, an HPA by a container that the VPA leaves alone was one.
func TestAnHPAOfAnotherContainerIsNoFault(t *testing.T) {
	v := vpaOf("web", "Deployment", "web")
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "proxy", Target: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	by := func(container string) []autoscalingv2.HorizontalPodAutoscaler {
		h := autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}
		h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: "cpu", Container: container, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType}}}}
		return []autoscalingv2.HorizontalPodAutoscaler{h}
	}
	require.Empty(t, (&objects{vpa: v, scalers: by("app")}).scalerFindings())
	require.Len(t, (&objects{vpa: v, scalers: by("proxy")}).scalerFindings(), 1)
}

// TestWhatBlocksNothingIsNoVerdict: regression, an HPA was said to block pods that had nothing to change.
func TestWhatBlocksNothingIsNoVerdict(t *testing.T) {
	r := &Report{Findings: []Finding{finding("hpa-same-resource", "", "", "it scales by cpu"), {Token: "eligibility/within-recommended-range", Class: Settled, Text: "Its requests are fine"}}}
	require.Equal(t, "nothing to do: its requests are fine", verdict(r, nil, r.Now).Text)
}

// TestABudgetThatAllowsNoEvictionIsTheVerdict: regression, the pods that the updater tries to evict were said to be evicted.
func TestABudgetThatAllowsNoEvictionIsTheVerdict(t *testing.T) {
	evicts, resizes := Pod{}, Pod{}
	evicts.Action, evicts.Rule, evicts.Reason = "Evict", "update/evict", "Its requests are outside the recommended range"
	resizes.Action, resizes.Rule = "InPlace", "update/resize"
	r := &Report{Pods: []Pod{evicts}, Findings: []Finding{finding(BudgetBlocks, "PodDisruptionBudget shop/web", "", "it requires 2 of 2 pods to be healthy, so it never allows an eviction")}}
	require.Equal(t, Verdict{Token: BudgetBlocks, Action: "Evict", Text: "blocked: PodDisruptionBudget shop/web requires 2 of 2 pods to be healthy, so it never allows an eviction"}, verdict(r, nil, r.Now))
	r.Pods = append(r.Pods, resizes)
	require.Equal(t, "update/evict", verdict(r, nil, r.Now).Token, "resizes go on")
}

// TestABudgetIsNoMatterOfModeInPlace, which never evicts: regression, the way out was to relax the budget.
func TestABudgetIsNoMatterOfModeInPlace(t *testing.T) {
	waits, evicts := Pod{}, Pod{}
	waits.Action, waits.Rule, waits.Class = "Wait", "resize/resize-under-way", Waiting
	evicts.Action, evicts.Rule = "Evict", "update/mine"
	require.False(t, (&Report{Pods: []Pod{waits}}).mayEvict())
	require.True(t, (&Report{Pods: []Pod{waits, evicts}}).mayEvict(), "by a rule of an overlay")
	waits.Priority = &answers.Priority{MayEvict: true}
	require.True(t, (&Report{Pods: []Pod{waits}}).mayEvict())
	waits.Class = Settled
	require.False(t, (&Report{Pods: []Pod{waits}}).mayEvict(), "there is nothing to do")
}

func TestAQuotaThatIsTooSmallIsNamedWithItsNumbers(t *testing.T) {
	quota := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "team"}}
	quota.Status.Hard = corev1.ResourceList{"requests.cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("9")}
	quota.Status.Used = corev1.ResourceList{"requests.cpu": resource.MustParse("1500m"), "memory": resource.MustParse("900Mi"), "pods": resource.MustParse("2")}
	o := &objects{vpa: vpaOf("web", "Deployment", "web"), quotas: []corev1.ResourceQuota{quota}}
	planned := func(changes ...answers.Change) []Pod {
		p := Pod{}
		p.Change = changes
		return []Pod{p, p}
	}
	more := answers.Change{Container: "app", Field: "requests.cpu", From: "100m", To: "400m"}
	require.Equal(t, []string{"quota-exceeded: requests.cpu: 1500m of 2 are used, and all pods together would need 600m more"}, tokensOf(o.quotaFindings(planned(more))))
	require.Equal(t, []string{"quota-exceeded: memory: 900Mi of 1Gi are used, and all pods together would need 200Mi more"},
		tokensOf(o.quotaFindings(planned(answers.Change{Container: "app", Field: "requests.memory", To: "100Mi"}))))
	require.Empty(t, o.quotaFindings(planned(answers.Change{Field: "requests.cpu", From: "100m", To: "300m"})), "it just fits")
	require.Empty(t, o.quotaFindings(planned(answers.Change{Field: "requests.cpu", From: "2", To: "1"})), "less is wanted")

	// Regression: requests of containers were added to those of their pod, which count in their place.
	whole, both := answers.Change{Field: "requests.cpu", From: "500m", To: "700m"}, []PodContainer{{"app", "requests.cpu", "100m", "400m"}, {"", "requests.cpu", "500m", "700m"}}
	p := Pod{Containers: both}
	p.Change = []answers.Change{more, whole}
	require.Empty(t, o.quotaFindings([]Pod{p, p}), "400m more, and 500m are left")
	p.Change = []answers.Change{more}
	require.Empty(t, o.quotaFindings([]Pod{p, p}), "the pod as a whole keeps what it has")
}

// TestTheDocsListTheTokens, with their classes and meanings.
func TestTheDocsListTheTokens(t *testing.T) {
	page, err := os.ReadFile("../docs/explain.md")
	require.NoError(t, err)
	for _, token := range Tokens {
		require.Contains(t, string(page), fmt.Sprintf("\n| `%s` | %s | %s |\n", token.Name, token.Class, token.About))
	}
	require.Len(t, regexp.MustCompile("(?m)^\\| `[a-z-]+` \\| [A-Z]").FindAll(page, -1), len(Tokens), "and no other")
}
