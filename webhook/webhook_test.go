package webhook

import (
	"context"
	"crypto/x509"
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

// TestReviewsThatMakeNoSenseDoNotPanic sends them through the server's own decoding.
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
		review + `{"uid":"1","resource":{"group":"apps","version":"v1","resource":"deployments"},"operation":"CREATE","object":{}}}`,
	} {
		resp, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		require.NoError(t, err, body)
		resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
	}
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
