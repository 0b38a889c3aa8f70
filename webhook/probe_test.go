package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// probedServer is an API server with a webhook.
type probedServer struct {
	client.Client
	t        *testing.T
	answers  func(*vpav1.VerticalPodAutoscaler) error // of a create
	mayNot   bool
	reviews  int
	creates  int
	messages []string
	*Prober
}

func newProbed(t *testing.T) *probedServer {
	s := &probedServer{t: t}
	s.Prober = &Prober{Client: s, Namespace: "vpa", Log: funcr.New(func(_, args string) { s.messages = append(s.messages, args) }, funcr.Options{})}
	s.answers = s.reached
	reachable.DeleteLabelValues()
	return s
}

func (s *probedServer) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	if review, ok := object.(*authorizationv1.SelfSubjectAccessReview); ok {
		s.reviews++
		review.Status.Allowed = !s.mayNot
		require.Equal(s.t, "create verticalpodautoscalers.autoscaling.k8s.io vpa", review.Spec.ResourceAttributes.Verb+" "+review.Spec.ResourceAttributes.Resource+"."+review.Spec.ResourceAttributes.Group+" "+review.Spec.ResourceAttributes.Namespace)
		return nil
	}
	s.creates++
	require.Equal(s.t, []client.CreateOption{client.DryRunAll}, options, "nothing is stored")
	return s.answers(object.(*vpav1.VerticalPodAutoscaler))
}

// reached passes the VPA through the webhook.
func (s *probedServer) reached(vpa *vpav1.VerticalPodAutoscaler) error {
	answer := probeReview(s.t, vpa, ptr.To(true), admissionv1.Create)
	require.True(s.t, answer.Allowed)
	require.Len(s.t, answer.Patches, 1)
	require.Equal(s.t, "/metadata/annotations/celvpa.dev~1webhook-probe", answer.Patches[0].Path)
	vpa.Annotations[probeAnnotation] = answer.Patches[0].Value.(string)
	return nil
}

// probeReview is the webhook's answer; without rules, so that it panics if they are asked.
func probeReview(t *testing.T, vpa *vpav1.VerticalPodAutoscaler, dryRun *bool, operation admissionv1.Operation) admission.Response {
	raw, err := json.Marshal(vpa)
	require.NoError(t, err)
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: operation, DryRun: dryRun, Object: runtime.RawExtension{Raw: raw}}}
	req.Resource.Group, req.Resource.Resource = vpav1.GroupVersion.Group, "verticalpodautoscalers"
	return (&Handler{}).Handle(t.Context(), req)
}

// looks probes n times.
func (s *probedServer) looks(n int) {
	for range n {
		s.report(s.probe(s.t.Context()))
	}
}

func state() string {
	if testutil.CollectAndCount(reachable) == 0 {
		return "unknown"
	}
	return map[float64]string{0: "unreached", 1: "reached"}[testutil.ToFloat64(reachable.WithLabelValues())]
}

func TestAWebhookThatIsNotReachedIsReportedAtTheSecondProbe(t *testing.T) {
	ignored := func(*vpav1.VerticalPodAutoscaler) error { return nil }
	refused := func(*vpav1.VerticalPodAutoscaler) error {
		return apierrors.NewInternalError(errors.New(`failed calling webhook "vpa.k8s.io": failed to call webhook: connection refused`))
	}
	for name, tt := range map[string]struct {
		answers func(*vpav1.VerticalPodAutoscaler) error
		says    string
	}{
		"failure policy Ignore": {ignored, "the API server went on without this webhook, as the failure policy says"},
		"failure policy Fail":   {refused, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newProbed(t)
			s.looks(2)
			require.Equal(t, "reached", state())
			require.Empty(t, s.messages, "all is well")
			s.answers = tt.answers
			s.looks(1)
			require.Equal(t, "reached", state(), "once may be an accident")
			s.looks(3)
			require.Equal(t, "unreached", state())
			require.Error(t, s.Unreached(), "it was reached before")
			require.Len(t, s.messages, 1, "once")
			require.Contains(t, s.messages[0], "the API server does not reach this webhook, so new pods do not get their recommendations; check the MutatingWebhookConfiguration that has vpa.k8s.io")
			require.Contains(t, s.messages[0], tt.says)
			s.answers = s.reached
			s.looks(1)
			require.Equal(t, "reached", state())
			require.NoError(t, s.Unreached())
			require.Contains(t, s.messages[1], "recovered")
			require.Equal(t, 1, s.reviews, "the permission is asked for once")
		})
	}
}

// TestAWebhookThatWasNeverReachedIsNotTakenForOneThatFailed: the namespace of the probe may be one that webhooks are kept from.
func TestAWebhookThatWasNeverReachedIsNotTakenForOneThatFailed(t *testing.T) {
	s := newProbed(t)
	s.answers = func(*vpav1.VerticalPodAutoscaler) error { return nil }
	s.looks(3)
	require.Equal(t, "unreached", state())
	require.NoError(t, s.Unreached())
	require.NoError(t, (*Prober)(nil).Unreached())
}

func TestWhatSaysNothingAboutTheWebhookIsNotReportedAsItsFault(t *testing.T) {
	s := newProbed(t)
	s.answers = func(*vpav1.VerticalPodAutoscaler) error {
		return apierrors.NewForbidden(vpav1.GroupVersion.WithResource("verticalpodautoscalers").GroupResource(), "", errors.New("exceeded quota"))
	}
	s.looks(3)
	require.Equal(t, "unknown", state())
	require.Len(t, s.messages, 1)
	require.Contains(t, s.messages[0], "cannot find out whether API servers reach the webhook; --webhook-probe-interval=0 turns this off")
}

func TestWithoutPermissionNothingIsCreated(t *testing.T) {
	s := newProbed(t)
	s.mayNot = true
	s.looks(3)
	require.Zero(t, s.creates)
	require.Equal(t, "unknown", state())
	require.Len(t, s.messages, 1, "once")
	require.Contains(t, s.messages[0], "allow this process to create verticalpodautoscalers.autoscaling.k8s.io")
	s.mayNot = false
	s.looks(1)
	require.Equal(t, "reached", state(), "a permission is noticed without a restart")
}

// A marked VPA that would be stored is reviewed as any other.
func TestOnlyDryRunsAreProbes(t *testing.T) {
	vpa := &vpav1.VerticalPodAutoscaler{}
	vpa.Annotations = map[string]string{probeAnnotation: probeAsked}
	raw, err := json.Marshal(vpa)
	require.NoError(t, err)
	for _, tt := range []struct {
		dryRun *bool
		about  admissionv1.Operation
		raw    string
		want   bool
	}{
		{ptr.To(true), admissionv1.Create, string(raw), true},
		{ptr.To(true), admissionv1.Update, string(raw), false},
		{ptr.To(false), admissionv1.Create, string(raw), false},
		{nil, admissionv1.Create, string(raw), false},
		{ptr.To(true), admissionv1.Create, strings.ReplaceAll(string(raw), probeAsked, probeAnswered), false},
		{ptr.To(true), admissionv1.Create, "{", false},
	} {
		req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: tt.about, DryRun: tt.dryRun, Object: runtime.RawExtension{Raw: []byte(tt.raw)}}}
		require.Equal(t, tt.want, isProbe(req), "%v %s %s", tt.dryRun, tt.about, tt.raw)
	}
}

// A NetworkPolicy that drops packets makes API servers wait for the webhook, but not for anything else.
func TestAProbeThatTakesTooLongIsUnreachedIfTheAPIServerAnswersOtherwise(t *testing.T) {
	s := newProbed(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	s.answers = func(*vpav1.VerticalPodAutoscaler) error { <-ctx.Done(); return ctx.Err() }
	require.ErrorAs(t, s.probe(ctx), new(unreached))
}
