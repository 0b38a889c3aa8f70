package webhook

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

func TestTheServingCertificateIsTrustedForItsHostsAndRenewed(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	certs, err := NewSelfSigned(clk, "127.0.0.1", "vpa-webhook.kube-system.svc")
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(certs.CABundle()))
	verify := func(host string) error {
		pair, err := certs.GetCertificate(nil)
		require.NoError(t, err)
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		require.NoError(t, err)
		_, err = leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: clk.Now()})
		return err
	}
	require.NoError(t, verify("127.0.0.1"))
	require.NoError(t, verify("vpa-webhook.kube-system.svc"))
	require.Error(t, verify("elsewhere"))
	first, err := certs.Certificate()
	require.NoError(t, err)
	clk.Step(servingLifetime*2/3 - 1)
	same, err := certs.Certificate()
	require.NoError(t, err)
	require.Same(t, first, same)
	clk.Step(1)
	renewed, err := certs.Certificate()
	require.NoError(t, err)
	require.NotSame(t, first, renewed)
	clk.Step(servingLifetime / 2)
	require.NoError(t, verify("127.0.0.1"), "still valid long after the first would have ended")
}

// TestReviewsThatMakeNoSenseDoNotPanic sends them through the server's own decoding (UPSTREAM.md Appendix B 5).
func TestReviewsThatMakeNoSenseDoNotPanic(t *testing.T) {
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	server := httptest.NewServer(&admission.Webhook{Handler: &Handler{Rules: func() *engine.Rulebook { return book }, Log: logr.Discard()}})
	defer server.Close()
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":`
	for _, body := range []string{
		``, `{`, `[]`, `null`, `{}`, review + `null}`, review + `{"uid":"1"}}`,
		review + `{"uid":"1","resource":{"version":"v1","resource":"pods"},"operation":"CREATE"}}`,
		review + `{"uid":"1","resource":{"version":"v1","resource":"pods"},"operation":"CREATE","object":[]}}`,
		review + `{"uid":"1","resource":{"version":"v1","resource":"pods"},"operation":"CREATE","object":{"metadata":{"name":7}}}}`,
		review + `{"uid":"1","resource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"},"operation":"CREATE","object":null}}`,
		`{"apiVersion":"v1","kind":"Pod","request":{"uid":"1"}}`, `{"apiVersion":"admission.k8s.io/v9","kind":"AdmissionReview","request":{"uid":"1"}}`,
		review + `{"uid":"1","resource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"},"operation":"CREATE"}}`,
		review + `{"uid":"1","resource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"},"operation":"CREATE","object":"text"}}`,
		review + `{"uid":"1","resource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"},"operation":"UPDATE","object":{"spec":[]},"oldObject":7}}`,
		review + `{"uid":"1","resource":{"group":"autoscaling.k8s.io","version":"v1","resource":"verticalpodautoscalers"},"operation":"DELETE","oldObject":{}}}`,
		review + `{"uid":"1","resource":{"group":"apps","version":"v1","resource":"deployments"},"operation":"CREATE","object":{}}}`,
	} {
		resp, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		require.NoError(t, err, body)
		resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
	}
}

// TestAReviewThatIsTooLargeIsRefusedUnread: the server does not hold any amount in memory.
func TestAReviewThatIsTooLargeIsRefusedUnread(t *testing.T) {
	server := httptest.NewServer(&admission.Webhook{Handler: &Handler{Log: logr.Discard()}})
	defer server.Close()
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","name":"` + strings.Repeat("x", 16<<20) + `"}}`
	resp, err := http.Post(server.URL, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer admissionv1.AdmissionReview
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	require.False(t, answer.Response.Allowed)
	require.EqualValues(t, http.StatusRequestEntityTooLarge, answer.Response.Result.Code)
}

// TestAVPAIsDefaultedOrRefusedWithItsCauses is the answer as API servers get it.
func TestAVPAIsDefaultedOrRefusedWithItsCauses(t *testing.T) {
	book, err := policy.Load(policy.Options{})
	require.NoError(t, err)
	h := &Handler{Rules: func() *engine.Rulebook { return book }, Log: logr.Discard()}
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
		{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]", Message: "maxAllowed.cpu 1 is below minAllowed.cpu 2 (rule vpa-bounds/max-cpu-above-min)"},
	}, resp.Result.Details.Causes)
	require.Equal(t, metav1.StatusReasonInvalid, resp.Result.Reason)
	require.EqualValues(t, http.StatusUnprocessableEntity, resp.Result.Code)
	require.Equal(t, "web", resp.Result.Details.Name)
	warnings := []string{
		"spec.targetRef: without a targetRef nothing is sized; name the controller whose pods are meant (rule vpa-object/has-target)",
		"spec.updatePolicy.updateMode: update mode Auto is deprecated: use Recreate, which does the same, or InPlaceOrRecreate (rule vpa-object/auto-is-deprecated)",
	}
	require.Equal(t, warnings, resp.Warnings, "what is refused is warned about too")

	resp = h.Handle(context.Background(), request(admissionv1.Update, wrong, wrong))
	require.True(t, resp.Allowed, "what is there and does not change can stay")
	require.Len(t, resp.Warnings, 4)
	require.True(t, h.Handle(context.Background(), request(admissionv1.Delete, "", wrong)).Allowed)
}

// TestAnAnswerHasSomeSize however much is wrong.
func TestAnAnswerHasSomeSize(t *testing.T) {
	causes := make([]vpareview.Cause, 20000)
	for i := range causes {
		causes[i] = vpareview.Cause{Rule: "set/rule", Field: "spec", Message: "no"}
	}
	resp := denied(admission.Request{}, "autoscaling.k8s.io", "VerticalPodAutoscaler", causes)
	require.Len(t, resp.Result.Details.Causes, 100)
	require.Contains(t, resp.Result.Message, "; and 19900 more")
	require.Less(t, len(resp.Result.Message), 5000)
	require.Len(t, texts(causes), 101)
}

// TestAPodIsAdmittedUnchangedWhateverGoesWrong: here the handler has no client, which panics inside.
func TestAPodIsAdmittedUnchangedWhateverGoesWrong(t *testing.T) {
	h := &Handler{Log: logr.Discard()}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"p"}}`)},
	}}
	resp := h.Handle(context.Background(), req)
	require.True(t, resp.Allowed)
	require.Empty(t, resp.Patches)
	req.Object.Raw = []byte(`{"spec":7}`)
	resp = h.Handle(context.Background(), req)
	require.True(t, resp.Allowed)
	require.Empty(t, resp.Patches)
}

func TestTheRegistrationSelectsTheServedNamespaces(t *testing.T) {
	url := "https://127.0.0.1:8000"
	r := Registration{URL: url, TimeoutSeconds: 5, FailurePolicy: "Ignore"}
	hook := r.webhook()
	require.Equal(t, &url, hook.ClientConfig.URL)
	require.Nil(t, hook.ClientConfig.Service)
	require.Empty(t, hook.NamespaceSelector.MatchExpressions, "UPSTREAM.md Appendix B 17: no NotIn with an empty name")
	r = Registration{ServiceNamespace: "kube-system", ServiceName: "vpa-webhook", Namespaces: target.Namespaces{Only: "a"}}
	hook = r.webhook()
	require.Nil(t, hook.ClientConfig.URL)
	require.Equal(t, "vpa-webhook", hook.ClientConfig.Service.Name)
	require.Equal(t, []string{"a"}, hook.NamespaceSelector.MatchExpressions[0].Values)
	require.Equal(t, metav1.LabelSelectorOpIn, hook.NamespaceSelector.MatchExpressions[0].Operator)
	r.Namespaces = target.Namespaces{Ignored: []string{"b", "c"}}
	require.Equal(t, metav1.LabelSelectorOpNotIn, r.webhook().NamespaceSelector.MatchExpressions[0].Operator)
}
