package integration

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// anOverlayIsAuditedThenEnforced as an operator would who wants more headroom in one namespace.
func anOverlayIsAuditedThenEnforced(t *testing.T) {
	ns := namespace(t, "it-overlay")
	overlay := &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: "headroom"}, Spec: rulesv1alpha1.RuleOverlaySpec{
		Mode:   "Audit",
		Match:  &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{ns}},
		Change: []rulesv1alpha1.Change{{Params: map[string]apiextensionsv1.JSON{"estimate.marginFraction": {Raw: []byte("0.2")}}}},
	}}
	create(t, overlay)
	t.Cleanup(func() { _ = cluster.Delete(context.Background(), overlay) })
	accepted(t, overlay, metav1.ConditionTrue, "in use")

	create(t, steady(ns, "web", 1), vpa(ns, "web", vpav1.UpdateModeOff))
	target := func(ctx context.Context) (cpu resource.Quantity, rules string) {
		var v vpav1.VerticalPodAutoscaler
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: "web"}, &v); err != nil || v.Status.Recommendation == nil {
			return cpu, ""
		}
		if c := condition(&v, vpav1.RulesApplied); c != nil {
			rules = c.Message
		}
		for _, c := range v.Status.Recommendation.ContainerRecommendations {
			cpu = c.Target[corev1.ResourceCPU]
		}
		return cpu, rules
	}
	hang.Eventually(t, "an event that says what the overlay would change", func(ctx context.Context) (bool, error) {
		var events eventsv1.EventList
		if err := cluster.List(ctx, &events, client.InNamespace(ns)); err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if e.Regarding.Name == "web" && strings.Contains(e.Note, "RuleOverlay headroom (Audit) would change the recommendation: container app target cpu 476m → 496m") {
				return true, nil
			}
		}
		return false, nil
	})
	var cpu resource.Quantity
	var rules string
	hang.Eventually(t, "the recommendation", func(ctx context.Context) (bool, error) { // the event may come first
		cpu, rules = target(ctx)
		return !cpu.IsZero(), nil
	})
	require.Equal(t, steadyCPU.String(), cpu.String(), "nothing is enforced")
	require.Contains(t, rules, "; not enforced: headroom (Audit)")

	before := overlay.DeepCopy()
	overlay.Spec.Mode = "Enforce"
	require.NoError(t, cluster.Patch(t.Context(), overlay, client.MergeFrom(before)))
	hang.Eventually(t, "the recommendation with the overlay", func(ctx context.Context) (bool, error) {
		cpu, rules := target(ctx)
		return cpu.String() == "496m" && strings.Contains(rules, ", overlays headroom"), nil
	})

	// The condition reports an error on the object, and the last good version stays in force.
	before = overlay.DeepCopy()
	overlay.Spec.Change[0].Params["estimate.marginFraction"] = apiextensionsv1.JSON{Raw: []byte(`"lots"`)}
	require.NoError(t, cluster.Patch(t.Context(), overlay, client.MergeFrom(before)))
	accepted(t, overlay, metav1.ConditionFalse, `param marginFraction: "lots" is not a finite number`)
	cpu, _ = target(t.Context())
	require.Equal(t, "496m", cpu.String())

	require.NoError(t, cluster.Delete(t.Context(), overlay))
	hang.Eventually(t, "the recommendation without the overlay", func(ctx context.Context) (bool, error) {
		cpu, _ := target(ctx)
		return cpu.Cmp(steadyCPU) == 0, nil
	})
}

// oneOverlayOnASharedSettingMovesEveryRule that reads it: the recommendation in one process, and
// the validation of VPAs in another.
func oneOverlayOnASharedSettingMovesEveryRule(t *testing.T) {
	ns, other := namespace(t, "it-shared"), namespace(t, "it-unshared")
	overlay := &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: "small-containers"}, Spec: rulesv1alpha1.RuleOverlaySpec{
		Match:  &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{ns}},
		Change: []rulesv1alpha1.Change{{Params: map[string]apiextensionsv1.JSON{"containerMaxAllowed.cpu": {Raw: []byte(`"300m"`)}}}},
	}}
	create(t, overlay)
	t.Cleanup(func() { _ = cluster.Delete(context.Background(), overlay) })
	accepted(t, overlay, metav1.ConditionTrue, "in use")

	create(t, steady(ns, "web", 1), vpa(ns, "web", vpav1.UpdateModeOff))
	hang.Eventually(t, "a target at the maximum of the overlay", func(ctx context.Context) (bool, error) {
		var v vpav1.VerticalPodAutoscaler
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: "web"}, &v); err != nil || v.Status.Recommendation == nil {
			return false, err
		}
		for _, c := range v.Status.Recommendation.ContainerRecommendations {
			return c.Target.Cpu().String() == "300m" && c.UncappedTarget.Cpu().Cmp(steadyCPU) == 0, nil
		}
		return false, nil
	})
	above := func(ns string) *vpav1.VerticalPodAutoscaler {
		v := vpa(ns, "above", vpav1.UpdateModeOff)
		v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{
			{ContainerName: "*", MinAllowed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("400m")}}}}
		return v
	}
	require.ErrorContains(t, cluster.Create(t.Context(), above(ns)), "minAllowed.cpu 400m is above the maximum of containers without maxAllowed.cpu, 300m")
	create(t, above(other))
}

// anOverlayIsForNamespacesByLabel, and labels that change count.
func anOverlayIsForNamespacesByLabel(t *testing.T) {
	ns := namespace(t, "it-labels")
	followsLabels(t, ns, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: "by-label"}, Spec: rulesv1alpha1.RuleOverlaySpec{
		Match:  &rulesv1alpha1.RuleOverlayMatch{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"size": "small"}}},
		Change: []rulesv1alpha1.Change{{Params: map[string]apiextensionsv1.JSON{"containerMaxAllowed.cpu": {Raw: []byte(`"300m"`)}}}},
	}})
}

// anOverlayIsForWorkloadsByLabel, and labels that change count.
func anOverlayIsForWorkloadsByLabel(t *testing.T) {
	ns := namespace(t, "it-workloads")
	followsLabels(t, ns, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}, &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: "by-workload-label"}, Spec: rulesv1alpha1.RuleOverlaySpec{
		Match:  &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{ns}, WorkloadSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"size": "small"}}},
		Change: []rulesv1alpha1.Change{{Params: map[string]apiextensionsv1.JSON{"containerMaxAllowed.cpu": {Raw: []byte(`"300m"`)}}}},
	}})
}

// rulesReadWorkloadsNamespacesAndNodes, and labels that change count.
func rulesReadWorkloadsNamespacesAndNodes(t *testing.T) {
	ns := namespace(t, "it-surroundings")
	followsLabels(t, ns, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}, &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: "by-workload"}, Spec: rulesv1alpha1.RuleOverlaySpec{
		Match: &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{ns}},
		Change: []rulesv1alpha1.Change{{Before: "container-caps", Stage: &rulesv1alpha1.Stage{
			Name: "by-workload", Each: &apiextensionsv1.JSON{Raw: []byte(`"bound"`)},
			When:  "has(now.cpu) && nodes.count > 0 && namespaceObject.labels[?'kubernetes.io/metadata.name'].orValue('') == vpa.namespace && workload.labels[?'size'].orValue('') == 'small'",
			Rules: []rulesv1alpha1.Rule{{Name: "small", Set: map[string]apiextensionsv1.JSON{"now.cpu": {Raw: []byte(`"cpu('300m')"`)}}}},
		}}},
	}})
}

// followsLabels waits for the target that an overlay makes where label size of an object is small.
func followsLabels(t *testing.T, ns string, labelled client.Object, overlay *rulesv1alpha1.RuleOverlay) {
	create(t, overlay)
	t.Cleanup(func() { _ = cluster.Delete(context.Background(), overlay) })
	accepted(t, overlay, metav1.ConditionTrue, "in use")
	create(t, steady(ns, "web", 1), vpa(ns, "web", vpav1.UpdateModeOff))
	for _, step := range []struct{ label, cpu string }{{"large", steadyCPU.String()}, {"small", "300m"}, {"large", steadyCPU.String()}} {
		label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"size":"`+step.label+`"}}}`))
		require.NoError(t, cluster.Patch(t.Context(), labelled, label))
		hang.Eventually(t, "a target of "+step.cpu, func(ctx context.Context) (bool, error) {
			var v vpav1.VerticalPodAutoscaler
			if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: "web"}, &v); err != nil || v.Status.Recommendation == nil {
				return false, err
			}
			return slices.ContainsFunc(v.Status.Recommendation.ContainerRecommendations, func(c vpav1.RecommendedContainerResources) bool { // none before the first samples
				return c.Target.Cpu().String() == step.cpu
			}), nil
		})
	}
}

// accepted waits until the condition Accepted is about the current generation.
func accepted(t *testing.T, o *rulesv1alpha1.RuleOverlay, status metav1.ConditionStatus, message string) {
	t.Helper()
	hang.Eventually(t, "Accepted is "+string(status), func(ctx context.Context) (bool, error) {
		var now rulesv1alpha1.RuleOverlay
		if err := cluster.Get(ctx, client.ObjectKeyFromObject(o), &now); err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(now.Status.Conditions, rulesv1alpha1.ConditionAccepted)
		return c != nil && c.ObservedGeneration == o.Generation && c.Status == status && strings.Contains(c.Message, message), nil
	})
}

// aPinnedPipelineIsUsed, and an unknown one is refused.
func aPinnedPipelineIsUsed(t *testing.T) {
	ns := namespace(t, "it-pin")
	v := vpa(ns, "web", vpav1.UpdateModeOff)
	v.Annotations = map[string]string{"rules.celvpa.dev/pipeline": "default@0.1.0"}
	require.ErrorContains(t, cluster.Create(t.Context(), v), `metadata.annotations[rules.celvpa.dev/pipeline]: pipeline "default@0.1.0" is not loaded; write it as name@version, there is default@1.0.0`)
	v.Annotations["rules.celvpa.dev/pipeline"] = "default@1.0.0"
	create(t, v)
	hang.Eventually(t, "RulesApplied", func(ctx context.Context) (bool, error) {
		var now vpav1.VerticalPodAutoscaler
		if err := cluster.Get(ctx, client.ObjectKeyFromObject(v), &now); err != nil {
			return false, err
		}
		c := condition(&now, vpav1.RulesApplied)
		return c != nil && c.Reason == "default@1.0.0", nil
	})
	overlay := &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: "follow-one"}, Spec: rulesv1alpha1.RuleOverlaySpec{
		Match:  &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{ns}},
		Change: []rulesv1alpha1.Change{{Use: "follow@1.0.0"}},
	}}
	create(t, overlay)
	t.Cleanup(func() { _ = cluster.Delete(context.Background(), overlay) })
	accepted(t, overlay, metav1.ConditionFalse, `pipeline "follow@1.0.0" is not loaded; there is default@1.0.0; --pipelines and --rules-dir load others`)
	before := overlay.DeepCopy()
	overlay.Spec.Change[0].Use = "default@1.0.0"
	require.NoError(t, cluster.Patch(t.Context(), overlay, client.MergeFrom(before)))
	accepted(t, overlay, metav1.ConditionTrue, "in use")
}

// oneRuleFileChangesTheWebhookAndTheAPIServer: the webhook reloads the file, and the API server
// changes when the generated CRD is applied.
func oneRuleFileChangesTheWebhookAndTheAPIServer(t *testing.T) {
	withoutCelvpa(t)
	// In the second namespace only the API server validates.
	served, unserved := namespace(t, "it-source"), namespace(t, "it-unserved")
	dir := ownRules(t)
	startWebhook(t, served, "--rules-dir="+dir, "--rules-reload-interval=100ms", "--ignored-vpa-object-namespaces="+unserved)
	const refused = "vpa-object/min-replicas-positive@spec.updatePolicy.minReplicas"
	answers := func(ns, from string, replicas string, want ...string) {
		t.Helper()
		hang.Eventually(t, from+" to answer by the rules in the file", func(ctx context.Context) (bool, error) {
			err := cluster.Create(ctx, object(ns, "tried", "updatePolicy: {updateMode: 'Off', minReplicas: "+replicas+"}"), client.DryRunAll)
			byWebhook := err != nil && strings.Contains(err.Error(), "admission webhook")
			return slices.Equal(refusals(err), want) && (err == nil || byWebhook == (ns == served)), nil
		})
	}
	answers(served, "the webhook", "1")
	answers(unserved, "the API server", "1")
	answers(unserved, "the API server", "0", refused)

	editRules(t, dir, "vpa-object.yaml", "expression: self > 0\n", "expression: self > 1\n")
	answers(served, "the webhook", "1", refused)
	answers(served, "the webhook", "2")
	answers(unserved, "the API server", "1") // the CRD is still the old one

	t.Cleanup(func() { require.NoError(t, cluster.InstallCRDs(context.Background(), false)) })
	file := filepath.Join(t.TempDir(), "crds.yaml")
	require.NoError(t, os.WriteFile(file, printed(t, "--rules-dir="+dir), 0o600))
	require.NoError(t, cluster.ApplyFiles(t.Context(), file))
	answers(unserved, "the API server", "1", refused)
	answers(unserved, "the API server", "2")
}
