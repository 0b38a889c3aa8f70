package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/hang"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// aCandidateChangesWhatTheDiffPredicts: rules diff --live computes from real checkpoints what the
// recommender then writes, to the digit.
func aCandidateChangesWhatTheDiffPredicts(t *testing.T) {
	ns := namespace(t, "it-predicted")
	create(t, steady(ns, "web", 1), vpa(ns, "web", vpav1.UpdateModeInitial))
	recommended(t, ns, "web")
	for uid, pod := range running(t, ns, 1) { // its memory window ends, and gets into the checkpoint
		require.NoError(t, cluster.Delete(t.Context(), &pod))
		hang.Eventually(t, "another pod", func(context.Context) (bool, error) {
			all := pods(t, ns)
			_, still := all[uid]
			return !still && len(all) == 1, nil
		})
	}
	hang.Eventually(t, "a checkpoint with CPU and memory", func(ctx context.Context) (bool, error) {
		var c vpav1.VerticalPodAutoscalerCheckpoint
		err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: "web-app"}, &c)
		return len(c.Status.CPUHistogram.BucketWeights) > 0 && len(c.Status.MemoryHistogram.BucketWeights) > 0, client.IgnoreNotFound(err)
	})
	before := recommended(t, ns, "web").Status.Recommendation.ContainerRecommendations[0].Target

	overlay := &rulesv1alpha1.RuleOverlay{
		TypeMeta:   metav1.TypeMeta{APIVersion: rulesv1alpha1.GroupVersion.String(), Kind: "RuleOverlay"},
		ObjectMeta: metav1.ObjectMeta{Name: "predicted"},
		Spec: rulesv1alpha1.RuleOverlaySpec{
			Match:  &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{ns}},
			Change: []rulesv1alpha1.Change{{Params: map[string]apiextensionsv1.JSON{"estimate.marginFraction": {Raw: []byte("0.5")}}}},
		},
	}
	candidate := map[string]any{"apiVersion": overlay.APIVersion, "kind": overlay.Kind, "metadata": map[string]any{"name": overlay.Name}, "spec": overlay.Spec}
	text, err := yaml.Marshal(candidate)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "predicted.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	ended := runToEnd("rules", "diff", "--live", file, "--kubeconfig="+kubeconfig, "-o", "json")
	require.NoError(t, ended.err) // the code is 2 while another test has a faulty object in the cluster
	type change struct{ Container, Field, From, To string }
	var impact struct {
		Items []struct {
			VPA            string
			Requests       struct{ CPU, Memory string }
			Recommendation []change
			Pods           []struct{ Resources []change }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(ended.stdout), &impact))
	require.Len(t, impact.Items, 1, "of all namespaces")
	item := impact.Items[0]
	require.Equal(t, ns+"/web", item.VPA)
	require.Len(t, item.Recommendation, 2)
	require.Len(t, item.Pods, 1)

	create(t, overlay)
	t.Cleanup(func() { _ = cluster.Delete(context.Background(), overlay) })
	accepted(t, overlay, metav1.ConditionTrue, "in use")
	var after vpav1.VerticalPodAutoscaler
	hang.Eventually(t, "the recommendation with the overlay", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: "web"}, &after)
		return after.Status.Recommendation.ContainerRecommendations[0].Target.Cpu().Cmp(before["cpu"]) > 0, err
	})
	now := after.Status.Recommendation.ContainerRecommendations[0].Target
	require.Equal(t, []change{
		{"app", "target.cpu", before.Cpu().String(), now.Cpu().String()},
		{"app", "target.memory", before.Memory().String(), now.Memory().String()},
	}, item.Recommendation)
	for _, requests := range item.Pods[0].Resources[:2] { // a new pod gets them
		require.Equal(t, map[string]string{"requests.cpu": now.Cpu().String(), "requests.memory": now.Memory().String()}[requests.Field], requests.To)
	}
	more := now.DeepCopy()
	for name, q := range before {
		difference := more[name]
		difference.Sub(q)
		more[name] = difference
	}
	cpu, memory := more["cpu"], more["memory"]
	require.Equal(t, []string{cpu.String(), memory.String()}, []string{item.Requests.CPU, item.Requests.Memory})

	// Who may not read all namespaces gets that of the context, and a note says so.
	refused := runToEnd("rules", "diff", "--live", file, "--kubeconfig="+kubeconfig, "--as=nobody")
	require.Equal(t, 2, refused.code)
	require.Regexp(t, `(?m)^celvpa: only namespace default is read, that of the context: .*User "nobody" cannot list .*; grant list on all namespaces, or name one with -n$`, refused.stderr)
	require.Regexp(t, `(?m)^celvpa: the answer is without checkpoints: cannot read verticalpodautoscalercheckpoints\.autoscaling\.k8s\.io in namespace default: `, refused.stderr)
}
