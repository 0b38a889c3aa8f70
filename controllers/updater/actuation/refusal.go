package actuation

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/freshness"
	"github.com/celvpa/celvpa/controllers/podupdate"
)

// Messages of API servers, where neither code nor reason distinguishes answers (Kubernetes 1.33 to
// 1.37).
var (
	ofQuota      = []string{"exceeded quota:", "failed quota:", "insufficient quota to consume", "status unknown for quota:"}
	ofLimitRange = regexp.MustCompile(`(minimum|maximum) \S+ usage per (Container|Pod) is |max limit to request ratio per (Container|Pod) is `)
	// A node, an operating system or an API server that cannot resize such pods.
	ofSupport = []string{
		"pod update requires features", "Pod running on node without support for resize", "windows pods cannot be resized", "static pods cannot be resized",
		"feature gate is disabled",
	}
	ofPermission = []string{"cannot patch resource", "cannot create resource"} // to resize, to evict
	// A JSON Patch that does not fit the pod, such as one for an earlier pod of the name. API
	// servers do not say why.
	ofPatch  = "the server rejected our request due to an error in our request"
	ofPolicy = []string{"ValidatingAdmissionPolicy", "admission webhook"}
	// A webhook with failure policy Fail that does not answer. Its code is 500, but webhooks are asked before
	// anything is done.
	ofWebhook = "failed calling webhook"
	// An API server that has just started and has not cached all nodes, LimitRanges or quotas.
	ofHaste = []string{"not yet ready to handle request", "failed to get node", "error enforcing limit ranges"}
)

// Causes that API servers give.
const (
	causeNodeCapacity metav1.CauseType = "NodeCapacity"        // the node could never hold the pod (AEP-8818, Kubernetes 1.36)
	causePlatform     metav1.CauseType = "UnsupportedPlatform" // its operating system cannot resize
)

// RefusalOf classifies the error of a resize or an eviction. The error must not be nil.
func RefusalOf(err error) facts.Refusal {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) { // no answer, a deadline, or the client's own rate limit
		return facts.RefusedNotAnswered
	}
	status := answer.Status()
	has := func(texts []string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(status.Message, text) })
	}
	switch code := status.Code; {
	case ofBudget(err, status):
		return facts.RefusedBudget
	case apierrors.HasStatusCause(err, causeNodeCapacity):
		return facts.RefusedNodeCapacity
	case apierrors.HasStatusCause(err, causePlatform):
		return facts.RefusedNotSupported
	case code == http.StatusNotFound && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse), code == http.StatusMethodNotAllowed:
		return facts.RefusedNotSupported // no such subresource
	case code == http.StatusNotFound, code == http.StatusGone:
		return facts.RefusedGone
	case code == http.StatusConflict:
		return facts.RefusedConflict
	case webhookFailed(status):
		return facts.RefusedWebhookFailed
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= http.StatusInternalServerError:
		return facts.RefusedNotAnswered
	case code == http.StatusUnprocessableEntity && status.Message == ofPatch:
		return facts.RefusedConflict
	case code == http.StatusForbidden && has(ofPermission):
		return facts.RefusedNotPermitted
	case has(ofPolicy):
		return facts.RefusedForbidden
	case has(ofHaste):
		return facts.RefusedNotAnswered
	case has(ofQuota), ofLimitRange.MatchString(status.Message):
		return facts.RefusedQuota
	case has(ofSupport):
		return facts.RefusedNotSupported
	case code == http.StatusUnprocessableEntity, code == http.StatusBadRequest:
		return facts.RefusedInvalid
	}
	return facts.RefusedForbidden
}

// webhookFailed reports whether the API server refused because a webhook did not answer.
func webhookFailed(status metav1.Status) bool { return strings.Contains(status.Message, ofWebhook) }

// ofBudget reports whether a PodDisruptionBudget refused an eviction.
func ofBudget(err error, status metav1.Status) bool {
	return apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) || strings.Contains(status.Message, "PodDisruptionBudget") ||
		status.Code == http.StatusTooManyRequests && strings.Contains(status.Message, "disruption budget")
}

// OutcomeOf is what became of an eviction or a resize, by its error; nil = it was carried out.
func OutcomeOf(err error) podupdate.Outcome {
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		return podupdate.Done
	case unsent(err):
		return podupdate.Left
	case utilnet.IsConnectionRefused(err): // it did not reach the API server
		return podupdate.Declined
	case !errors.As(err, &answer):
		return podupdate.Unknown
	}
	switch status := answer.Status(); {
	case ofBudget(err, status), webhookFailed(status):
		return podupdate.Declined
	case status.Code == http.StatusNotFound && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse), status.Code == http.StatusGone,
		status.Code == http.StatusConflict && strings.Contains(status.Message, "UID"): // a new pod has the name
		return podupdate.Gone
	case status.Code == http.StatusRequestTimeout, status.Code >= http.StatusInternalServerError:
		return podupdate.Unknown
	}
	return podupdate.Declined
}

// unsent reports whether a request was never sent: the client's own rate limit would have delayed it
// too long, or the process knows too little by now.
func unsent(err error) bool {
	return strings.Contains(err.Error(), "client rate limiter Wait") || errors.As(err, new(freshness.Outdated))
}

// Unclear says why it is not known whether a request was carried out.
func Unclear(err error) string {
	if errors.As(err, new(apierrors.APIStatus)) {
		return "the API server answered: " + Said(err)
	}
	return "the API server did not answer in time"
}

// Said is the message of the API server, with the causes, which name disruption budgets.
func Said(err error) string {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return err.Error()
	}
	status := answer.Status()
	text := status.Message
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Message != "" && !strings.Contains(text, cause.Message) {
				text += " " + cause.Message
			}
		}
	}
	return text
}
