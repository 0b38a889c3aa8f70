package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func crossVersion(apiVersion, kind, name string) *autoscalingv1.CrossVersionObjectReference {
	return &autoscalingv1.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}
}

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

func containsText(s, part string) bool { return strings.Contains(s, part) }

// invalidVPAsAreRefused: the webhook names the field, the rule and the fix.
func invalidVPAsAreRefused(t *testing.T) {
	ns := namespace(t, "it-invalid")
	v := vpa(ns, "web", vpav1.UpdateModeInPlace)
	v.Spec.UpdatePolicy.MinReplicas = ptr.To[int32](0)
	v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{
		ContainerName: "app",
		MinAllowed:    corev1.ResourceList{"cpu": resource.MustParse("2")},
		MaxAllowed:    corev1.ResourceList{"cpu": resource.MustParse("1500m")},
	}}}
	err := cluster.Create(t.Context(), v)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	status := apierrors.APIStatus(nil)
	require.ErrorAs(t, err, &status)
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	require.ElementsMatch(t, []string{
		"spec.updatePolicy.updateMode", "spec.updatePolicy.minReplicas", "spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]",
	}, fields)
	for _, text := range []string{"--feature-gates=InPlace=true, or use InPlaceOrRecreate (rule vpa-gates/in-place)", "minReplicas must be greater than 0", "maxAllowed.cpu 1500m is below minAllowed.cpu 2"} {
		require.ErrorContains(t, err, text)
	}

	valid := vpa(ns, "web", vpav1.UpdateModeOff)
	require.NoError(t, cluster.Create(t.Context(), valid))
	valid.Spec.UpdatePolicy.MinReplicas = ptr.To[int32](-1)
	require.True(t, apierrors.IsInvalid(cluster.Update(t.Context(), valid)), "updates are validated too")
}

// whatGetsInTheWayIsWarnedAbout: other objects with the same target in the webhook's cache. Missing
// fields get their defaults.
func whatGetsInTheWayIsWarnedAbout(t *testing.T) {
	ns := namespace(t, "it-beside")
	create(t, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 3},
	})
	create(t, object(ns, "first", `updatePolicy: {updateMode: Initial}`))
	create(t, object(ns, "silent", `updatePolicy: {updateMode: "Off"}`))
	ear := newListener(t)
	second := object(ns, "second", "")
	want := []string{
		"spec.targetRef: HorizontalPodAutoscaler web scales the same target on cpu, so the two work against each other; remove cpu from controlledResources, or scale on another metric or averageValue (rule vpa-neighbours/hpa-scales-on)",
		"spec.targetRef: VerticalPodAutoscaler first has the same target; only the oldest changes the pods (rule vpa-neighbours/other-vpa)",
	}
	hang.Eventually(t, "the webhook to know of all three", func(ctx context.Context) (bool, error) {
		err := ear.Create(ctx, second.DeepCopy(), client.DryRunAll)
		return slices.Equal(ear.warnings(), want), err
	})
	create(t, second)
	mode, _, err := unstructured.NestedString(second.Object, "spec", "updatePolicy", "updateMode")
	require.NoError(t, err)
	require.Equal(t, "Recreate", mode)
}

// aTargetThatDoesNotExistIsReported, and other VPAs are served.
func aTargetThatDoesNotExistIsReported(t *testing.T) {
	ns := namespace(t, "it-missing")
	create(t, vpa(ns, "nobody", vpav1.UpdateModeOff))
	owned := vpa(ns, "owned", vpav1.UpdateModeOff)
	create(t, steady(ns, "web", 1))
	running(t, ns, 1)
	for _, p := range pods(t, ns) {
		owned.Spec.TargetRef = crossVersion("apps/v1", "ReplicaSet", p.OwnerReferences[0].Name)
	}
	unknown := vpa(ns, "unknown", vpav1.UpdateModeOff)
	unknown.Spec.TargetRef = crossVersion("elsewhere.example.com/v1", "Stranger", "web")
	create(t, owned, unknown)
	says := func(name, message string) {
		hang.Eventually(t, "condition ConfigUnsupported on "+name, func(ctx context.Context) (bool, error) {
			var v vpav1.VerticalPodAutoscaler
			if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &v); err != nil {
				return false, err
			}
			c := condition(&v, vpav1.ConfigUnsupported)
			provided := condition(&v, vpav1.RecommendationProvided)
			none := condition(&v, vpav1.NoPodsMatched)
			return c != nil && c.Status == corev1.ConditionTrue && containsText(c.Message, message) &&
				provided != nil && provided.Status == corev1.ConditionFalse && provided.Reason == "NoPodsMatched" &&
				none != nil && none.Status == corev1.ConditionTrue, nil
		})
	}
	says("nobody", "Cannot read targetRef. Reason: Deployment it-missing/nobody does not exist")
	says("unknown", "Cannot read targetRef. Reason: Stranger it-missing/web does not exist")
	says("owned", "has a parent controller but it should point to a topmost well-known or scalable controller")
}

// ignoredNamespacesAreNotServed: VPAs there get no recommendation and no validation.
func ignoredNamespacesAreNotServed(t *testing.T) {
	ns := namespace(t, "it-ignored")
	ignored := vpa(ns, "web", vpav1.UpdateModeOff)
	ignored.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{
		ContainerName: "app", MinAllowed: corev1.ResourceList{"cpu": resource.MustParse("0.1m")}, // invalid where the webhook looks
	}}}
	create(t, ignored)
	served := namespace(t, "it-served")
	create(t, vpa(served, "web", vpav1.UpdateModeOff))
	hang.Eventually(t, "a status on the served VPA", func(ctx context.Context) (bool, error) {
		var v vpav1.VerticalPodAutoscaler
		err := cluster.Get(ctx, client.ObjectKey{Namespace: served, Name: "web"}, &v)
		return len(v.Status.Conditions) > 0, err
	})
	var v vpav1.VerticalPodAutoscaler
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(ignored), &v))
	require.Empty(t, v.Status.Conditions)
}
