package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
)

// under compiles a candidate laid over the shipped rules.
func under(t testing.TB, text string) *compile.Rulebook {
	t.Helper()
	path := filepath.Join(t.TempDir(), "candidate.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	rules, err := policy.Open(policy.Options{Cache: compiled})
	require.NoError(t, err)
	over, _, err := rules.Under(path)
	require.NoError(t, err)
	book, err := over.Compile()
	require.NoError(t, err)
	return book
}

const margin = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: margin}
spec:
  match: {namespaces: [web]}
  change: [{params: {estimate.marginFraction: 1}}]
`

// recommended is shop with a recommendation in its status, and no history.
const recommended = `
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {namespace: web, name: shop}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}}
status: {recommendation: {containerRecommendations: [{containerName: app, target: {cpu: 500m, memory: 300Mi}, lowerBound: {cpu: 400m, memory: 200Mi}, upperBound: {cpu: 1, memory: 1Gi}}]}}
`

func TestWhatACandidateChangesIsCounted(t *testing.T) {
	withStatus := recommended + shop[strings.Index(shop, "---"):]
	tracked := shop + shopHistory
	fromHistory := "recommendations by both sets of rules are computed from checkpoints, which hold neither the memory windows that are open nor usage since they were written"
	overlay := func(spec string, name ...string) string {
		return "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: " + cmp.Or(strings.Join(name, ""), "tried") + "}\nspec: {" + spec + "}\n"
	}
	inCluster := "---\napiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: tried}\nspec: {change: [{params: {estimate.marginFraction: 1}}]}\n"
	for name, tt := range map[string]struct {
		cluster, candidate string
		vpas, pods         int
		cores, gib         string
		recommendation     []string
		first              []string // changes of the first pod
		actions            []string // of both pods
		after              Planned
		notes              []string
	}{
		// 864m and 863839180 bytes more for each of two pods.
		"a margin, from checkpoints": {
			cluster: tracked, candidate: margin, vpas: 1, pods: 2, cores: "+1.728", gib: "+1.609",
			recommendation: []string{"container app: target.cpu 1168m → 2032m", "container app: target.memory 1168723596 → 2032562776"},
			first:          []string{"container app: requests.cpu 1168m → 2032m", "container app: requests.memory 1168723596 → 2032562776"},
			actions:        []string{"update/evict → update/evict", "update/budget-spent → update/budget-spent"},
			after:          Planned{Evictions: 1, Waiting: 1}, notes: []string{fromHistory},
		},
		"a smaller margin": {
			cluster: tracked, candidate: overlay("change: [{params: {estimate.marginFraction: 0}}]"), vpas: 1, pods: 2, cores: "-0.304", gib: "-0.284",
			recommendation: []string{"container app: target.cpu 1168m → 1016m", "container app: target.memory 1168723596 → 1016281388"},
			first:          []string{"container app: requests.cpu 1168m → 1016m", "container app: requests.memory 1168723596 → 1016281388"},
			actions:        []string{"update/evict → update/evict", "update/budget-spent → update/budget-spent"},
			after:          Planned{Evictions: 1, Waiting: 1}, notes: []string{fromHistory},
		},
		"a margin, without a checkpoint": {
			cluster: withStatus, candidate: margin, cores: "0", gib: "0",
			notes: []string{"1 VerticalPodAutoscaler without a checkpoint: the recommendation is compared as it is, as if the candidate did not change it: web/shop"},
		},
		"another namespace": {cluster: tracked, candidate: overlay("match: {namespaces: [other]}, change: [{params: {estimate.marginFraction: 1}}]"), cores: "0", gib: "0"},
		"what the updater does": {
			cluster: withStatus, candidate: overlay("change: [{params: {minReplicas: 3}}]"), vpas: 1, pods: 2, cores: "0", gib: "0",
			actions: []string{"update/evict → eligibility/too-few-replicas", "update/budget-spent → eligibility/too-few-replicas"},
		},
		"an overlay in mode Audit counts as enforced": {
			cluster: withStatus, candidate: overlay("mode: Audit, change: [{params: {minReplicas: 3}}]"), vpas: 1, pods: 2, cores: "0", gib: "0",
			actions: []string{"update/evict → eligibility/too-few-replicas", "update/budget-spent → eligibility/too-few-replicas"},
		},
		"the cluster's own overlay is in force on both sides": {
			cluster: tracked + inCluster, candidate: overlay("priority: 1, change: [{params: {estimate.marginFraction: 1}}]", "more"), cores: "0", gib: "0",
		},
		"the candidate replaces an overlay of the cluster": {
			cluster: tracked + inCluster, candidate: overlay("change: [{params: {estimate.marginFraction: 0.15}}]"), vpas: 1, pods: 2, cores: "-1.728", gib: "-1.609",
			recommendation: []string{"container app: target.cpu 2032m → 1168m", "container app: target.memory 2032562776 → 1168723596"},
			first:          []string{"container app: requests.cpu 2032m → 1168m", "container app: requests.memory 2032562776 → 1168723596"},
			actions:        []string{"update/evict → update/evict", "update/budget-spent → update/budget-spent"},
			after:          Planned{Evictions: 1, Waiting: 1}, notes: []string{"the candidate replaces RuleOverlay tried of the cluster", fromHistory},
		},
		"future usage": {
			cluster: tracked, candidate: overlay("change: [{params: {oom-bump.ratio: 3}}]"), cores: "0", gib: "0",
			notes: []string{"the candidate changes how usage is counted (points usage.window and usage.oom), which acts on future usage only: it is left out here"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(t, tt.cluster, shipped(t))
			got, err := c.Compare(t.Context(), under(t, tt.candidate), nil)
			require.NoError(t, err)
			totals := &got.Totals
			require.Equal(t, []int{tt.vpas, 1, tt.pods, 2}, []int{totals.VPAs, totals.OfVPAs, totals.Pods, totals.OfPods})
			require.Equal(t, []string{tt.cores, tt.gib}, []string{totals.Requests.CPU.Cores(), totals.Requests.Memory.GiB()})
			require.Equal(t, tt.after, totals.After)
			require.Equal(t, tt.notes, c.Notes())
			if tt.vpas == 0 {
				require.Empty(t, got.Items)
				return
			}
			item := &got.Items[0]
			require.Equal(t, tt.recommendation, texts(item.Recommendation))
			require.Equal(t, tt.first, texts(item.Pods[0].Resources))
			var actions []string
			for i := range item.Pods {
				actions = append(actions, item.Pods[i].Before.Rule+" → "+item.Pods[i].After.Rule)
			}
			require.Equal(t, tt.actions, actions)
		})
	}
}

// TestPinnedVPAsAndThoseThatShareAPod: a pin keeps its pipeline, and a pod may lose its VPA.
func TestPinnedVPAsAndThoseThatShareAPod(t *testing.T) {
	pinned := strings.Replace(shop, "name: shop}", "name: shop, annotations: {"+policy.AnnotationPipeline+": default@1.0.0}}", 1) + shopHistory
	other := "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: other}\nspec: {pipeline: lean, change: [{params: {estimate.marginFraction: 1}}]}\n"
	lean, err := os.ReadFile("../examples/pipeline/lean.yaml")
	require.NoError(t, err)
	c := clusterOf(t, pinned, shipped(t))
	got, err := c.Compare(t.Context(), under(t, string(lean)+"\n---\n"+other), nil)
	require.NoError(t, err)
	require.Empty(t, got.Items)
	require.Equal(t, []string{"1 VerticalPodAutoscaler is pinned with annotation " + policy.AnnotationPipeline + ", and the candidate does not change that pipeline for them: web/shop"}, c.Notes())

	// Two VPAs have one target; the candidate lets new pods belong to neither.
	second := strings.Replace(strings.Replace(recommended, "name: shop}", "name: second}", 1), "cpu: 500m", "cpu: 700m", 1)
	never := "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: never}\nspec: {change: [{replace: admission-mode/mode-off, decision: {name: mode-off, when: 'true', do: Ignore, class: Settled, reason: not now}}]}\n"
	c = clusterOf(t, recommended+"---\n"+second+shop[strings.Index(shop, "---"):], shipped(t))
	got, err = c.Compare(t.Context(), under(t, never), nil)
	require.NoError(t, err)
	require.Equal(t, "-1.200", got.Totals.Requests.CPU.Cores(), "the first by name had them: 2 × (100m - 700m)")
	require.Equal(t, 2, got.Totals.Pods)
	require.Equal(t, "web/second", got.Items[0].VPA)
	require.Equal(t, []string{"container app: requests.cpu 700m → 100m", "container app: requests.memory 300Mi → 100Mi"}, texts(got.Items[0].Pods[0].Resources))
}

func texts(list []answers.Change) (out []string) {
	for _, item := range list {
		out = append(out, item.String())
	}
	return out
}

func TestAmountsAreExactAndSigned(t *testing.T) {
	delta := difference(corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}, corev1.ResourceList{"cpu": resource.MustParse("999m")})
	require.Equal(t, "-0.001", delta.CPU.Cores())
	require.Equal(t, "-1.000", delta.Memory.GiB())
	text, err := json.Marshal(&delta)
	require.NoError(t, err)
	require.JSONEq(t, `{"cpu":"-1m","memory":"-1073741824"}`, string(text))
	for n := range 3 { // no sum overflows
		most := difference(nil, corev1.ResourceList{"memory": *resource.NewQuantity(math.MaxInt64, resource.BinarySI)})
		delta.add(&most)
		require.Equal(t, []string{"+8589934591.000", "+17179869183.000", "+25769803775.000"}[n], delta.Memory.GiB())
	}
}

// TestManyVPAsAreComparedAtOnce: what goroutines write is apart. Without a race detector it is enough that maps notice.
func TestManyVPAsAreComparedAtOnce(t *testing.T) {
	var all strings.Builder
	for i := range 300 {
		all.WriteString(strings.NewReplacer("shop", fmt.Sprint("shop-", i)).Replace(shop + shopHistory))
	}
	c := clusterOf(t, all.String(), shipped(t))
	got, err := c.Compare(t.Context(), under(t, margin), nil)
	require.NoError(t, err)
	require.Equal(t, []int{300, 600}, []int{got.Totals.VPAs, got.Totals.Pods})
	require.Equal(t, "+518.400", got.Totals.Requests.CPU.Cores(), "600 × 864m")
	require.Equal(t, "web/shop-0", got.Items[0].VPA)
	require.Equal(t, "web/shop-1", got.Items[1].VPA)
	require.Equal(t, "web/shop-10", got.Items[2].VPA, "by name where the impact is the same")
}
