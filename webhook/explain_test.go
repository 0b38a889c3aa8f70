package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/answers"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/webhook/certificates"
	"github.com/celvpa/celvpa/webhook/podreview"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// webPods are pods of the Deployment web as API servers send them for review.
func webPods(name string, dryRun bool) admission.Request {
	pod := `{"metadata":{"namespace":"ns",` + name + `,"labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"uid-web-1","controller":true}]},
		"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"}}}]}}`
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: "ns", DryRun: &dryRun,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: runtime.RawExtension{Raw: []byte(pod)}}}
}

// explained is an Explainer of a cluster with Deployment web and its VPA, and a review of a pod of it.
func explained(t *testing.T) (*Explainer, func(name string, dryRun bool)) {
	v := sized("web", 1, func(v *vpav1.VerticalPodAutoscaler) {
		v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("512Mi")}}}}
	})
	h, api, _ := reviewer(t, append(shop(), v)...)
	h.Clock, h.Decisions = api.clock, answers.NewLog(answers.LogOptions{Component: "admission-controller", Kept: answers.DefaultKept})
	certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"host"}, Replica: "r", CALifetime: time.Hour, Lifetime: 10 * time.Minute, Clock: api.clock, Log: h.Log})
	require.NoError(t, err)
	return &Explainer{Handler: h, Certificate: certs.GetCertificate}, func(name string, dryRun bool) {
		require.True(t, h.Handle(t.Context(), webPods(name, dryRun)).Allowed)
	}
}

func TestTheLastAdmissionsOfAVPAAreExplained(t *testing.T) {
	e, admit := explained(t)
	admit(`"generateName":"web-1-"`, false)
	admit(`"name":"tried"`, true)
	said, err := e.Explain(t.Context(), "ns", "web")
	require.NoError(t, err)
	const updates = "Pod resources updated by web: container 0: cpu request, memory request"
	require.Equal(t, []answers.Admitted{{Time: e.Handler.Clock.Now(), Pod: "web-1-%", Allowed: true, Updates: updates}}, said.Admissions, "a dry run leaves no trace")
	require.Len(t, said.Decisions, 1)
	require.Equal(t, "Admit", said.Decisions[0].Action)
	require.Equal(t, said.Rules.Digest, said.Decisions[0].Rules)
	require.NotEmpty(t, said.Decisions[0].Inputs)
	require.Empty(t, said.Registered, "something else registers the webhook")
	require.Nil(t, said.Reachable)

	for i := range 2 * answers.DefaultKept {
		admit(fmt.Sprintf(`"name":"web-%d"`, i), false)
	}
	said, err = e.Explain(t.Context(), "ns", "web")
	require.NoError(t, err)
	require.Len(t, said.Admissions, answers.DefaultKept)
	require.Equal(t, fmt.Sprintf("web-%d", 2*answers.DefaultKept-1), said.Admissions[answers.DefaultKept-1].Pod, "the newest is the last")

	_, err = e.Explain(t.Context(), "ns", "wb")
	require.ErrorContains(t, err, "reading VerticalPodAutoscaler ns/wb: ")
}

func TestARefusedPodIsExplained(t *testing.T) {
	e, _ := explained(t)
	var v vpav1.VerticalPodAutoscaler
	require.NoError(t, e.Handler.Client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web"}, &v))
	req := webPods(`"name":"web-1"`, false)
	e.Handler.keep(&req, "web-1", &v, e.Handler.Rules().Default(), &podreview.Answer{Causes: []vpareview.Cause{{Rule: "valid-limits/limit", Field: "spec", Message: "too small"}}})
	said, err := e.Explain(t.Context(), "ns", "web")
	require.NoError(t, err)
	require.Equal(t, "valid-limits/limit", said.Decisions[0].Rule)
	require.False(t, said.Admissions[0].Allowed)
	require.Contains(t, said.Admissions[0].Message, "too small")
	require.Empty(t, said.Admissions[0].Updates)
}

func TestHowTheWebhookIsReachedIsExplained(t *testing.T) {
	e, _ := explained(t)
	e.Registered = func() error { return errors.New("the webhook is not registered yet") }
	e.Prober = &Prober{}
	said := func() answers.Admission {
		out, err := e.Explain(context.Background(), "ns", "web")
		require.NoError(t, err)
		return out
	}
	require.Equal(t, "the webhook is not registered yet", said().Registered)
	require.Nil(t, said().Reachable)
	e.Registered = func() error { return nil }
	e.Prober.report(nil)
	require.Empty(t, said().Registered)
	require.Equal(t, ptr.To(true), said().Reachable)
	e.Prober.report(unreached{errors.New("no route")})
	require.Equal(t, ptr.To(true), said().Reachable, "one failure may be an accident")
	e.Prober.report(unreached{errors.New("no route")})
	require.Equal(t, ptr.To(false), said().Reachable)
	e.Prober.report(errors.New("busy"))
	require.Nil(t, said().Reachable)
	require.Equal(t, e.Handler.Clock.Now().Add(10*time.Minute), *said().Expires)

	e.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none yet") }
	require.Nil(t, said().Expires)
}
