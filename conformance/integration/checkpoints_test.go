package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// checkpointsComeAndGoWithWhatTheyAreAbout: an unreadable checkpoint affects no other; unchanged
// checkpoints are not written; a checkpoint is deleted with its VPA or its container.
func checkpointsComeAndGoWithWhatTheyAreAbout(t *testing.T) {
	ns := namespace(t, "rec-keep")
	two := steady(ns, "two", 1)
	side := two.Spec.Template.Spec.Containers[0]
	side.Name = "side"
	two.Spec.Template.Spec.Containers = append(two.Spec.Template.Spec.Containers, side)
	create(t, unused(ns, "still", "app"), steady(ns, "busy", 1), two)
	over := func(name, target string) *vpav1.VerticalPodAutoscaler {
		v := vpa(ns, name, vpav1.UpdateModeOff)
		v.Spec.TargetRef.Name = target
		return v
	}
	known := harness.Days(2, 200, 400<<20)
	create(t, over("still", "still"), over("doomed", "still"), over("busy", "busy"), over("two", "two"),
		harness.Checkpoint(ns, "still", "app", known), harness.Checkpoint(ns, "doomed", "app", known), harness.Checkpoint(ns, "two", "app", known),
		harness.Checkpoint(ns, "two", "side", known), harness.Checkpoint(ns, "nobody", "app", known))
	for name, change := range map[string]func(status map[string]any){
		"text": func(s map[string]any) {
			s["cpuHistogram"].(map[string]any)["bucketWeights"] = map[string]any{"3": "many"}
		},
		"negative": func(s map[string]any) {
			s["cpuHistogram"].(map[string]any)["bucketWeights"] = map[string]any{"3": int64(-1)}
		},
		"index": func(s map[string]any) {
			s["memoryHistogram"].(map[string]any)["bucketWeights"] = map[string]any{"999": int64(1)}
		},
		"version": func(s map[string]any) { s["version"] = "v9" },
	} {
		c := harness.Checkpoint(ns, name, "app", known)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
		require.NoError(t, err)
		change(object["status"].(map[string]any))
		u := &unstructured.Unstructured{Object: object}
		u.SetGroupVersionKind(vpav1.GroupVersion.WithKind("VerticalPodAutoscalerCheckpoint"))
		create(t, over(name, "still"), u)
	}
	run(t, ns, 1)
	running(t, ns, 3)

	r := startRecommender(t, ns)
	const loaded = `celvpa_recommender_checkpoints_loaded_total{result="%s"}`
	r.becomes(t, fmt.Sprintf(loaded, "loaded"), 4)
	r.becomes(t, fmt.Sprintf(loaded, "unreadable"), 4)
	r.becomes(t, fmt.Sprintf(loaded, "unused"), 1)
	require.True(t, r.says("checkpoint unusable", `status.version is "v9"`))
	require.True(t, r.says("checkpoint unusable", `status.memoryHistogram.bucketWeights has a bucket "999"`))
	milli, bytes := asHistory(t, known)
	for _, name := range []string{"still", "doomed"} {
		target := targets(t, ns, name, 1)["app"]
		require.Equal(t, milli, milliOf(target))
		require.Equal(t, bytes, bytesOf(target))
	}
	for _, name := range []string{"text", "negative", "index", "version"} {
		nothingKnown(t, ns, name, "app") // its history begins anew
	}
	targets(t, ns, "two", 2)
	goes(t, ns, "nobody-app")

	// Without samples no checkpoint is written, readable or not.
	changing := []string{"VerticalPodAutoscaler busy", "VerticalPodAutoscalerCheckpoint busy-app", "VerticalPodAutoscaler two",
		"VerticalPodAutoscalerCheckpoint two-app", "VerticalPodAutoscalerCheckpoint two-side"}
	before := versions(t, ns, changing...)
	require.Len(t, before, 12)
	r.cycles(t, 5)
	require.Equal(t, before, versions(t, ns, changing...))

	recommended(t, ns, "busy")
	hang.Eventually(t, "the first checkpoint", func(context.Context) (bool, error) {
		return versions(t, ns)["VerticalPodAutoscalerCheckpoint busy-app"] != "", nil
	})
	first := versions(t, ns)
	hang.Eventually(t, "samples to be written down", func(context.Context) (bool, error) {
		now := versions(t, ns)
		for _, what := range changing[:2] {
			if now[what] == first[what] {
				return false, nil
			}
		}
		return true, nil
	})
	require.Equal(t, before, versions(t, ns, changing...))

	// VPAs are created and deleted during cycles.
	for i := range 20 {
		brief := over(fmt.Sprintf("brief-%d", i), "two")
		create(t, brief)
		if i%3 == 0 {
			r.cycles(t, 0)
		}
		require.NoError(t, cluster.Delete(t.Context(), brief))
	}
	doomed := over("doomed", "still")
	require.NoError(t, cluster.Delete(t.Context(), doomed))
	remove := []byte(`[{"op": "remove", "path": "/spec/template/spec/containers/1"}]`)
	require.NoError(t, cluster.Patch(t.Context(), two, client.RawPatch(types.JSONPatchType, remove)))
	goes(t, ns, "doomed-app")
	goes(t, ns, "two-side")
	require.Contains(t, targets(t, ns, "two", 1), "app")
	hang.Eventually(t, "no checkpoint of a VPA that is gone", func(context.Context) (bool, error) {
		for what := range versions(t, ns) {
			if containsText(what, "brief-") {
				return false, nil
			}
		}
		return true, nil
	})
	delete(before, "VerticalPodAutoscaler doomed")
	delete(before, "VerticalPodAutoscalerCheckpoint doomed-app")
	require.Equal(t, before, versions(t, ns, changing...), "those of others stay")
	require.Contains(t, versions(t, ns), "VerticalPodAutoscalerCheckpoint two-app")
}
