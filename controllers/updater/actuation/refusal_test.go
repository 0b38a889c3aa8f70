package actuation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
)

func answer(code int32, reason metav1.StatusReason, message string, causes ...metav1.CauseType) error {
	status := metav1.Status{Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{}}
	for _, cause := range causes {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return &apierrors.StatusError{ErrStatus: status}
}

func forbidden(message string, cause metav1.CauseType) error {
	return answer(http.StatusForbidden, metav1.StatusReasonForbidden, `pods "web" is forbidden: `+message, cause)
}

func budgetRefusal(needs int) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf("The disruption budget keep needs %d healthy pods and has %d currently", needs, needs)}}
	return err
}

// The messages are those of Kubernetes 1.37.
func TestRefusedResizesAreClassified(t *testing.T) {
	pods := corev1.Resource("pods")
	for _, tt := range []struct {
		name string
		err  error
		want facts.Refusal
	}{
		{"more than the node has", forbidden("node didn't have enough allocatable resources: cpu, requested: 100000, allocatable: 32000", "NodeCapacity"), facts.RefusedNodeCapacity},
		{"not on Linux", forbidden(`pod resize is only supported on linux nodes, node "n" is "windows"`, "UnsupportedPlatform"), facts.RefusedNotSupported},
		{"a feature that the node lacks", forbidden(`pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node "n"`, ""), facts.RefusedNotSupported},
		{"a quota", forbidden("exceeded quota: small, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1500m", ""), facts.RefusedQuota},
		{"a quota that is not known yet", forbidden("status unknown for quota: small, resources: requests.cpu", ""), facts.RefusedQuota},
		{"a LimitRange", forbidden("maximum cpu usage per Container is 200m, but limit is 1", ""), facts.RefusedQuota},
		{"several bounds of a LimitRange", forbidden("[maximum memory usage per Pod is 1Gi, but request is 2Gi, cpu max limit to request ratio per Pod is 2, but provided ratio is 4.000000]", ""), facts.RefusedQuota},
		{"an API server that has just started", forbidden("not yet ready to handle request", ""), facts.RefusedNotAnswered},
		{"no permission", apierrors.NewForbidden(pods, "web", errors.New(`User "system:serviceaccount:quota-system:x" cannot patch resource "pods/resize" in API group "" in the namespace "ns"`)), facts.RefusedNotPermitted},
		{"another pod that has the name", answer(422, metav1.StatusReasonInvalid, "the server rejected our request due to an error in our request"), facts.RefusedConflict},
		{"a webhook that says no", answer(403, "Forbidden", `admission webhook "a.example.com" denied the request: exceeded quota: of mine`), facts.RefusedForbidden},
		{"an admission policy", answer(422, metav1.StatusReasonInvalid, `pods "web" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`), facts.RefusedForbidden},
		{"a webhook that does not answer", answer(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "a.example.com"`), facts.RefusedWebhookFailed},
		{"another QoS class", answer(422, metav1.StatusReasonInvalid, `Pod "web" is invalid: spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing`), facts.RefusedInvalid},
		{"a node that cannot resize", answer(422, metav1.StatusReasonInvalid, `Pod "web" is invalid: spec: Forbidden: Pod running on node without support for resize`), facts.RefusedNotSupported},
		{"a static pod", answer(422, metav1.StatusReasonInvalid, `Pod "web" is invalid: <nil>: Forbidden: static pods cannot be resized`), facts.RefusedNotSupported},
		{"pod-level resources that cannot be resized", answer(422, metav1.StatusReasonInvalid, `Pod "web" is invalid: <nil>: Forbidden: resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled`), facts.RefusedNotSupported},
		{"no such pod", apierrors.NewNotFound(pods, "web"), facts.RefusedGone},
		{"no such subresource", apierrors.NewGenericServerResponse(404, "patch", pods, "web", "404 page not found", 0, true), facts.RefusedNotSupported},
		{"no such method", apierrors.NewMethodNotSupported(pods, "patch"), facts.RefusedNotSupported},
		{"a conflict", apierrors.NewConflict(pods, "web", errors.New("changed")), facts.RefusedConflict},
		{"too many requests", apierrors.NewTooManyRequests("later", 1), facts.RefusedNotAnswered},
		{"a server that timed out", apierrors.NewServerTimeout(pods, "patch", 1), facts.RefusedNotAnswered},
		{"a gateway without server", apierrors.NewGenericServerResponse(http.StatusBadGateway, "patch", pods, "web", "bad gateway", 0, true), facts.RefusedNotAnswered},
		{"time is up", fmt.Errorf("resizing: %w", context.DeadlineExceeded), facts.RefusedNotAnswered},
		{"nobody there", &url.Error{Op: "Patch", URL: "https://x", Err: errors.New("connection refused")}, facts.RefusedNotAnswered},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, RefusalOf(tt.err))
			require.Equal(t, tt.want, RefusalOf(fmt.Errorf("resizing pod ns/web: %w", tt.err)))
		})
	}
}

func TestAnswersToEvictionsAreClassified(t *testing.T) {
	pods := corev1.Resource("pods")
	webhookDown := apierrors.NewInternalError(errors.New(`failed calling webhook "a.example.com": failed to call webhook: EOF`))
	for _, tt := range []struct {
		name string
		err  error
		want podupdate.Outcome
	}{
		{"carried out", nil, podupdate.Done},
		{"a budget", budgetRefusal(3), podupdate.Declined},
		{"a budget in another state", forbidden("pdb disruptions allowed is negative", "DisruptionBudget"), podupdate.Declined},
		{"two budgets", answer(500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."), podupdate.Declined},
		{"too many requests", apierrors.NewTooManyRequests("Too many requests, please try again later.", 1), podupdate.Declined},
		{"no such pod", apierrors.NewNotFound(pods, "web"), podupdate.Gone},
		{"another pod of the name", apierrors.NewConflict(pods, "web", errors.New("the UID in the precondition (a) does not match the UID in record (b)")), podupdate.Gone},
		{"another conflict", apierrors.NewConflict(pods, "web", errors.New("changed")), podupdate.Declined},
		{"no such subresource", apierrors.NewGenericServerResponse(404, "create", pods, "web", "404 page not found", 0, true), podupdate.Declined},
		{"no permission", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("no")), podupdate.Declined},
		{"a timeout", apierrors.NewTimeoutError("later", 1), podupdate.Unknown},
		{"a webhook that does not answer", webhookDown, podupdate.Declined},
		{"an API server that is slow", apierrors.NewInternalError(errors.New("etcdserver: request timed out")), podupdate.Unknown},
		{"time is up", fmt.Errorf("evicting: %w", context.DeadlineExceeded), podupdate.Unknown},
		{"the client's own limit", errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline"), podupdate.Left},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, OutcomeOf(tt.err)) })
	}
	for _, budget := range []error{budgetRefusal(3), forbidden("pdb disruptions allowed is negative", "DisruptionBudget"), answer(500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")} {
		require.Equal(t, facts.RefusedBudget, RefusalOf(budget))
	}
	require.Equal(t, facts.RefusedWebhookFailed, RefusalOf(webhookDown), "it starts a back-off")
	require.Equal(t, "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget keep needs 3 healthy pods and has 3 currently", Said(fmt.Errorf("evicting pod ns/web: %w", budgetRefusal(3))))
}
