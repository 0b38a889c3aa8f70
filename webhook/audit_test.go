package webhook

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/webhook/podreview"
)

// overlaid is a handler whose rules have an overlay that forbids VPAs without a resource policy.
func overlaid(t *testing.T, mode string) (*Handler, *events.FakeRecorder) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "o.yaml"), []byte(`
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: strict}
spec:
  mode: `+mode+`
  match: {namespaces: [payments]}
  change:
  - after: vpa-object
    validation:
      name: policy-required
      at: spec
      enforce: [Admission]
      expression: has(self.resourcePolicy)
      message: say what is allowed
`), 0o600))
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Path: dir})
	require.NoError(t, err)
	recorder := events.NewFakeRecorder(10)
	return &Handler{
		Rules: func() *compile.Rulebook { return book }, Log: logr.Discard(),
		Shadows: &policy.Shadows{Component: "admission", Recorder: recorder, Clock: clock.RealClock{}, Log: logr.Discard()},
	}, recorder
}

func review(namespace, object, old string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Update, Namespace: namespace, Name: "web",
		Resource: metav1.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"},
		Object:   runtime.RawExtension{Raw: []byte(object)}, OldObject: runtime.RawExtension{Raw: []byte(old)},
	}}
}

const plainVPA = `{"metadata":{"namespace":"payments","name":"web","uid":"7"},"spec":{"targetRef":{"kind":"Deployment","name":"web"}}}`

func TestAnOverlayIsEnforcedWarnedAboutOrAudited(t *testing.T) {
	const text = "spec: say what is allowed (rule vpa-object/policy-required)"
	for _, tt := range []struct {
		mode    string
		allowed bool
		warning string
		event   bool
	}{
		{"Enforce", false, "", false},
		{"Warn", true, "spec: RuleOverlay strict (Warn) would refuse this: say what is allowed (rule vpa-object/policy-required)", true},
		{"Audit", true, "", true},
	} {
		h, recorder := overlaid(t, tt.mode)
		resp := h.Handle(context.Background(), review("payments", plainVPA, ""))
		require.Equal(t, tt.allowed, resp.Allowed, tt.mode)
		if !tt.allowed {
			require.Contains(t, resp.Result.Message, text)
		}
		if tt.warning != "" {
			require.Equal(t, []string{tt.warning}, resp.Warnings)
		} else {
			require.Empty(t, resp.Warnings, tt.mode)
		}
		require.Equal(t, tt.event, len(recorder.Events) == 1, tt.mode)

		other := h.Handle(context.Background(), review("elsewhere", plainVPAIn("elsewhere"), ""))
		require.True(t, other.Allowed, "another namespace is left alone")
		require.Empty(t, other.Warnings)
	}
}

func plainVPAIn(namespace string) string {
	return `{"metadata":{"namespace":"` + namespace + `","name":"web","uid":"8"},"spec":{"targetRef":{"kind":"Deployment","name":"web"}}}`
}

func TestADryRunLeavesNoTrace(t *testing.T) {
	h, recorder := overlaid(t, "Warn")
	req, yes := review("payments", plainVPA, ""), true
	req.DryRun = &yes
	resp := h.Handle(context.Background(), req)
	require.Len(t, resp.Warnings, 1)
	require.Empty(t, recorder.Events)
}

func TestAPinOfRulesThatAreNotLoadedIsRefusedUnlessItWasThere(t *testing.T) {
	h, _ := overlaid(t, "Audit")
	const pinned = `{"metadata":{"namespace":"a","name":"web","annotations":{"rules.celvpa.dev/pipeline":"default@9.0.0"}},"spec":{"targetRef":{"kind":"Deployment","name":"web"}}}`
	resp := h.Handle(context.Background(), review("a", pinned, plainVPAIn("a")))
	require.False(t, resp.Allowed)
	require.Contains(t, resp.Result.Message, `metadata.annotations[rules.celvpa.dev/pipeline]: pipeline "default@9.0.0" is not loaded; write it as name@version, there is default@1.0.0`)
	require.True(t, h.Handle(context.Background(), review("a", pinned, pinned)).Allowed)
}

// TestAPanicOfWhatIsOnlyTriedCostsNothingEnforced: here there is nothing to record with, which panics inside.
func TestAPanicOfWhatIsOnlyTriedCostsNothingEnforced(t *testing.T) {
	h, _ := overlaid(t, "Audit")
	h.Shadows = nil
	require.True(t, h.Handle(context.Background(), review("payments", plainVPA, "")).Allowed)
	const invalid = `{"metadata":{"namespace":"payments","name":"web","uid":"7"},"spec":{"updatePolicy":{"updateMode":"X"}}}`
	require.False(t, h.Handle(context.Background(), review("payments", invalid, "")).Allowed, "what is enforced is still refused")
}

// TestAnOverlayThatAllowsMoreIsReported although the object is refused.
func TestAnOverlayThatAllowsMoreIsReported(t *testing.T) {
	h, _ := overlaid(t, "Warn")
	relaxed := writeOverlay(t, "{mode: Warn, change: [{disable: vpa-object/update-mode-known}]}")
	h.Rules = func() *compile.Rulebook { return relaxed }
	resp := h.Handle(context.Background(), review("payments", `{"metadata":{"namespace":"payments","name":"web","uid":"7"},"spec":{"updatePolicy":{"updateMode":"X"}}}`, ""))
	require.False(t, resp.Allowed)
	require.Len(t, resp.Warnings, 2, "the other is that there is no target")
	require.Contains(t, resp.Warnings[1], "spec.updatePolicy.updateMode: RuleOverlay mine (Warn) would not refuse this: update mode X is not known")
}

// writeOverlay loads the shipped rules with one overlay called mine.
func writeOverlay(t *testing.T, spec string) *compile.Rulebook {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte("{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: mine}, spec: "+spec+"}\n"), 0o600))
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Path: file})
	require.NoError(t, err)
	return book
}

// TestWhatAnOverlayWouldGiveANewPodIsRecordedAndWarnedOf and the pod gets what is enforced.
func TestWhatAnOverlayWouldGiveANewPodIsRecordedAndWarnedOf(t *testing.T) {
	h, recorder := overlaid(t, "Audit")
	book := writeOverlay(t, "{mode: Warn, change: [{disable: proportional-limits}]}")
	list := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "7"}}
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: list("200m")}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: list("100m"), Limits: list("300m")}}}}}
	chosen := policy.For(book, v)
	request := podreview.Request{Pod: pod, VPA: v}
	enforced := podreview.Review(chosen.Plan, request, nil)
	require.Empty(t, enforced.Failed)
	warnings := h.auditPod(admission.Request{}, logr.Discard(), v, request, chosen.Shadows, &enforced)
	require.Equal(t, []string{"RuleOverlay mine (Warn) would change the pod: container app limit cpu 600m → unset"}, warnings)
	require.Contains(t, <-recorder.Events, "would change new pods: container app limit cpu 600m → unset")
}
