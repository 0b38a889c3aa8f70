package explain

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
)

// TestAListNamesTheVPAThatHasThePods of a shared target: regression, the other one had "no pods".
func TestAListNamesTheVPAThatHasThePods(t *testing.T) {
	plan := &simulate.Plan{Items: []answers.PlannedPod{{Pod: "shop/web-1", VPA: "shop/web", Action: "Skip", Rule: "eligibility/nothing-to-change", Reason: "Nothing"}}}
	list := NewList([]*vpav1.VerticalPodAutoscaler{vpaOf("second", "Deployment", "web"), vpaOf("web", "Deployment", "web"), vpaOf("idle", "Deployment", "idle")}, nil, plan)
	reasons := map[string]string{}
	for _, row := range list.Items {
		reasons[row.VPA] = row.Reason
	}
	require.Equal(t, map[string]string{"shop/idle": "no pods", "shop/web": "Nothing",
		"shop/second": "VerticalPodAutoscaler shop/web controls the pods of its target (point vpa.order)"}, reasons)
}

// TestTheWorstComesFirstInAList, and the last line sums up.
func TestTheWorstComesFirstInAList(t *testing.T) {
	planned := func(vpa, action, rule, class string) answers.PlannedPod {
		return answers.PlannedPod{Pod: "shop/" + vpa + "-1", VPA: "shop/" + vpa, Action: action, Rule: rule, Class: class}
	}
	plan := &simulate.Plan{Items: []answers.PlannedPod{
		planned("a", "Skip", "eligibility/within-recommended-range", Settled), planned("b", "Evict", "update/evict", ""),
		planned("c", "Wait", "update/budget-spent", Waiting), planned("d", "Skip", "eligibility/too-few-replicas", Misconfigured),
	}}
	var vpas []*vpav1.VerticalPodAutoscaler
	var pods []corev1.Pod
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		v := vpaOf(name, "Deployment", name)
		v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{
			{ContainerName: "app", Target: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi")}}}}
		vpas = append(vpas, v)
		running := pod(name+"-1", nil)
		running.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("350m"), "memory": resource.MustParse("1Gi")}}}}
		pods = append(pods, running)
	}
	list := NewList(vpas, pods, plan)
	var order []string
	for _, row := range list.WorstFirst() {
		order = append(order, row.VPA+" "+row.Class+" "+row.Why())
	}
	require.Equal(t, []string{
		"shop/d Misconfigured eligibility/too-few-replicas", "shop/e Misconfigured no-pods", "shop/c Waiting update/budget-spent",
		"shop/b  update/evict", "shop/a Settled eligibility/within-recommended-range",
	}, order)
	require.Equal(t, "5 VerticalPodAutoscalers: 2 Misconfigured (1 eligibility/too-few-replicas, 1 no-pods); 1 Waiting (1 update/budget-spent); "+
		"1 to be changed (1 update/evict); 1 Settled (1 eligibility/within-recommended-range). "+
		"With their targets, all pods together would request 1 less CPU and as much memory.", list.Summary())
	require.Equal(t, []string{"-1", "0"}, []string{list.MoreCPU, list.MoreMemory})
}

// TestAListComparesWhatHasATarget: regression, the requests of containers that a VPA leaves alone were
// set against the targets of others, and requests of a pod as a whole were left out.
func TestAListComparesWhatHasATarget(t *testing.T) {
	cpu := func(amount string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(amount)} }
	v := vpaOf("web", "Deployment", "web")
	require.Equal(t, "- → -", gap(v, nil, "cpu").Text(true))

	both := pod("web-1", nil)
	both.Spec.Containers = []corev1.Container{
		{Name: "app", Resources: corev1.ResourceRequirements{Requests: cpu("4")}}, {Name: "proxy", Resources: corev1.ResourceRequirements{Requests: cpu("100m")}},
	}
	require.Equal(t, "4100m → -", gap(v, &both, "cpu").Text(true), "nothing is recommended")

	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{
		{ContainerName: "proxy", Target: cpu("50m")}, {ContainerName: "gone", Target: cpu("1")}}}
	require.Equal(t, "100m → 50m", gap(v, &both, "cpu").Text(true))
	require.Equal(t, "- → 1050m", gap(v, nil, "cpu").Text(true), "without a pod, all of it")

	both.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu("5")}
	v.Status.Recommendation.PodRecommendation = &vpav1.RecommendedResources{Target: cpu("2")}
	require.Equal(t, "5 → 2", gap(v, &both, "cpu").Text(true))
	require.Equal(t, "- → -", gap(v, &both, "memory").Text(true))
}

// TestAVPAWhoseTargetIsGoneSaysSo: the reason was "no pods", and of a cluster a note asked for manifests.
func TestAVPAWhoseTargetIsGoneSaysSo(t *testing.T) {
	reader := manifests.Reader{Client: api(t, vpaOf("web", "Deployment", "web")), Namespace: "shop"}
	set, _, err := reader.Read(t.Context(), append(manifests.PodKinds, manifests.VPAKind)...)
	require.NoError(t, err)
	book, err := policy.Load(policy.Options{Cache: &compiledSets})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		set          *manifests.Set
		reason, note string
	}{
		"of a cluster": {set, "its target, Deployment shop/web, was not found in the cluster",
			"Deployment shop/web, the target of VerticalPodAutoscaler shop/web, was not found in the cluster, and no pod belongs to it"},
		"of manifests": {&manifests.Set{Documents: set.Documents}, "its target, Deployment shop/web, is not in the manifests",
			"Deployment shop/web, the target of VerticalPodAutoscaler shop/web, is not in the manifests, and no pod belongs to it; add its manifest with -f"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := simulate.Load(tt.set, book, simulate.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
			require.NoError(t, err)
			plan, err := cluster.Plan(false)
			require.NoError(t, err)
			vpas, err := cluster.VPAs()
			require.NoError(t, err)
			require.Equal(t, tt.reason, NewList(vpas, nil, plan).Items[0].Reason)
			require.Equal(t, []string{tt.note}, cluster.Notes())
		})
	}
}

// TestWithoutTheCRDsTheWayOutIsNamed, as celvpa list does.
func TestWithoutTheCRDsTheWayOutIsNamed(t *testing.T) {
	missing := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}}
	c := interceptor.NewClient(api(t).(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return missing
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return missing },
	})
	for _, s := range []Subject{{Namespace: "shop", Name: "web"}, {Name: "web"}, {Namespace: "shop"}, {Namespace: "shop", Kind: "Deployment", Name: "web"}} {
		_, err := Explain(t.Context(), Options{Client: c}, s)
		require.Error(t, err)
		if s.Kind == "" {
			require.ErrorIs(t, err, manifests.ErrNoVPAs, s.String())
		}
	}
}
