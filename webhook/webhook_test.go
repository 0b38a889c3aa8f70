package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// TestAVPAIsDefaultedOrRefusedWithItsCauses is the answer as API servers get it.
func TestAVPAIsDefaultedOrRefusedWithItsCauses(t *testing.T) {
	book, err := policy.Load(policy.Options{Cache: &compiledSets})
	require.NoError(t, err)
	h := &Handler{Rules: func() *compile.Rulebook { return book }, Log: logr.Discard()}
	request := func(operation admissionv1.Operation, object, old string) admission.Request {
		return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: "1", Operation: operation, Namespace: "a", Name: "web",
			Resource: metav1.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"},
			Object:   runtime.RawExtension{Raw: []byte(object)}, OldObject: runtime.RawExtension{Raw: []byte(old)},
		}}
	}
	const bare = `{"metadata":{"name":"web"},"spec":{"targetRef":{"kind":"Deployment","name":"web"}}}`
	resp := h.Handle(context.Background(), request(admissionv1.Create, bare, ""))
	require.True(t, resp.Allowed)
	require.Empty(t, resp.Warnings)
	require.Len(t, resp.Patches, 1)
	require.JSONEq(t, `{"op":"add","path":"/spec/updatePolicy","value":{"updateMode":"Recreate"}}`, resp.Patches[0].Json())

	const wrong = `{"metadata":{"name":"web"},"spec":{"updatePolicy":{"updateMode":"Auto","minReplicas":0},"resourcePolicy":{"containerPolicies":[{"containerName":"a","maxAllowed":{"cpu":"1"},"minAllowed":{"cpu":"2"}}]}}}`
	resp = h.Handle(context.Background(), request(admissionv1.Create, wrong, ""))
	require.False(t, resp.Allowed)
	require.Empty(t, resp.Patches)
	require.Equal(t, []metav1.StatusCause{
		{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.updatePolicy.minReplicas", Message: "minReplicas must be greater than 0 (rule vpa-object/min-replicas-positive)"},
		{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]", Message: "maxAllowed.cpu 1 is below minAllowed.cpu 2 (rule vpa-bounds/max-above-min)"},
	}, resp.Result.Details.Causes)
	require.Equal(t, metav1.StatusReasonInvalid, resp.Result.Reason)
	require.EqualValues(t, http.StatusUnprocessableEntity, resp.Result.Code)
	require.Equal(t, "web", resp.Result.Details.Name)
	require.Equal(t, `VerticalPodAutoscaler.autoscaling.k8s.io "web" is invalid: spec.updatePolicy.minReplicas: minReplicas must be greater than 0 `+
		`(rule vpa-object/min-replicas-positive); spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]: maxAllowed.cpu 1 is below minAllowed.cpu 2 `+
		`(rule vpa-bounds/max-above-min)`, resp.Result.Message, "the kind has its group, as in what API servers write")
	warnings := []string{
		"spec.targetRef: without a targetRef nothing is sized; name the controller of the pods (rule vpa-object/has-target)",
		"spec.updatePolicy.updateMode: update mode Auto is deprecated: use Recreate, which does the same, or InPlaceOrRecreate (rule vpa-object/auto-is-deprecated)",
	}
	require.Equal(t, warnings, resp.Warnings, "what is refused is warned about too")

	resp = h.Handle(context.Background(), request(admissionv1.Update, wrong, wrong))
	require.True(t, resp.Allowed, "what is there and does not change can stay")
	require.Len(t, resp.Warnings, 4)
	require.True(t, h.Handle(context.Background(), request(admissionv1.Delete, "", wrong)).Allowed)
}

// TestAnOperatorsDefaultsReachTheObject as the API server applies them.
func TestAnOperatorsDefaultsReachTheObject(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleOverlay
metadata: {name: mine}
spec:
  change:
  - after: defaults/update-policy
    stage: {name: boost, rules: [{name: twice, set: {spec.startupBoost.cpu.type: "'Factor'", spec.startupBoost.cpu.factor: "2"}}]}
  - after: defaults/spelling
    stage: {name: named, each: containerPolicy, rules: [{name: requests, set: {policy.controlledValues: "'RequestsOnly'"}}]}
  - after: defaults/spelling
    stage: {name: others, each: wildcardPolicy, rules: [{name: requests, set: {policy.controlledValues: "'RequestsOnly'"}}]}
`), 0o600))
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Path: file, Gates: map[string]bool{"CPUStartupBoost": true}})
	require.NoError(t, err)
	h := &Handler{Rules: func() *compile.Rulebook { return book }, Log: logr.Discard()}
	for spec, want := range map[string]string{
		`"targetRef":{"kind":"Deployment","name":"web"}`: `"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledValues":"RequestsOnly"}]}`,
		`"targetRef":{"kind":"Deployment","name":"web"},"resourcePolicy":{"containerPolicies":[{"containerName":"a"}]}`: `"resourcePolicy":{"containerPolicies":[
			{"containerName":"a","controlledValues":"RequestsOnly"},{"containerName":"*","controlledValues":"RequestsOnly"}]}`,
	} {
		object := []byte(`{"metadata":{"name":"web"},"spec":{` + spec + `}}`)
		resp := h.Handle(context.Background(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Namespace: "a", Name: "web",
			Resource: metav1.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"},
			Object:   runtime.RawExtension{Raw: object},
		}})
		require.True(t, resp.Allowed)
		require.Empty(t, resp.Warnings)
		operations, err := json.Marshal(resp.Patches)
		require.NoError(t, err)
		patch, err := jsonpatch.DecodePatch(operations)
		require.NoError(t, err)
		stored, err := patch.Apply(object)
		require.NoError(t, err)
		require.JSONEq(t, `{"metadata":{"name":"web"},"spec":{"targetRef":{"kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Recreate"},
			"startupBoost":{"cpu":{"type":"Factor","factor":2}},`+want+`}}`, string(stored))
	}
}

// TestAnAnswerHasSomeSize however much is wrong.
func TestAnAnswerHasSomeSize(t *testing.T) {
	causes := make([]vpareview.Cause, 20000)
	for i := range causes {
		causes[i] = vpareview.Cause{Rule: "set/rule", Field: "spec", Message: "no"}
	}
	resp := denied(admission.Request{}, schema.GroupKind{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}, causes)
	require.Len(t, resp.Result.Details.Causes, 100)
	require.Contains(t, resp.Result.Message, "; and 19900 more")
	require.Less(t, len(resp.Result.Message), 5000)
	require.Len(t, texts(causes), 101)
}

// TestHazard17TheRegistrationSelectsTheServedNamespaces (UPSTREAM.md Appendix B 17).
func TestHazard17TheRegistrationSelectsTheServedNamespaces(t *testing.T) {
	url := "https://127.0.0.1:8000"
	r := Registration{URL: url, TimeoutSeconds: 5, FailurePolicy: "Ignore"}
	hook := r.webhook(nil)
	require.Equal(t, &url, hook.ClientConfig.URL)
	require.Nil(t, hook.ClientConfig.Service)
	require.Empty(t, hook.NamespaceSelector.MatchExpressions, "UPSTREAM.md Appendix B 17: no NotIn with an empty name")
	r = Registration{ServiceNamespace: "kube-system", ServiceName: "vpa-webhook", Namespaces: target.Namespaces{Only: "a"}}
	hook = r.webhook(nil)
	require.Nil(t, hook.ClientConfig.URL)
	require.Equal(t, "vpa-webhook", hook.ClientConfig.Service.Name)
	require.Equal(t, []string{"a"}, hook.NamespaceSelector.MatchExpressions[0].Values)
	require.Equal(t, metav1.LabelSelectorOpIn, hook.NamespaceSelector.MatchExpressions[0].Operator)
	r.Namespaces = target.Namespaces{Ignored: []string{"b", "c"}}
	require.Equal(t, metav1.LabelSelectorOpNotIn, r.webhook(nil).NamespaceSelector.MatchExpressions[0].Operator)
}
