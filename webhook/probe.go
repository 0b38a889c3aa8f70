package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/celvpa/celvpa/controllers/notice"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// probeAnnotation marks the VPA that a Prober asks API servers to create as a dry run. The webhook changes its value.
const (
	probeAnnotation = "celvpa.dev/webhook-probe"
	probeAsked      = "asked"
	probeAnswered   = "answered"
	probeName       = "celvpa-webhook-probe"
)

// probeAnswer is what the webhook says to a probe, whatever the rules are.
var probeAnswer = admission.Patched("", jsonpatch.NewOperation("replace", "/metadata/annotations/"+strings.ReplaceAll(probeAnnotation, "/", "~1"), probeAnswered))

// isProbe recognizes the dry run of a Prober, of this replica or another one.
func isProbe(req admission.Request) bool {
	if req.DryRun == nil || !*req.DryRun || req.Operation != admissionv1.Create {
		return false
	}
	var meta metav1.PartialObjectMetadata
	return json.Unmarshal(req.Object.Raw, &meta) == nil && meta.Annotations[probeAnnotation] == probeAsked
}

const (
	// probeTimeout is shorter than API servers may wait for a webhook that drops their packets.
	probeTimeout = 10 * time.Second
	// probeFailures in a row are no accident.
	probeFailures = 2
)

var reachable = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "celvpa_webhook_reachable",
	Help: "1 if the API server reached the webhook at the last probe, 0 if it did not twice in a row. Missing while that is not known.",
}, nil)

func init() { metrics.Registry.MustRegister(reachable) }

// Prober finds out whether API servers reach the webhook: it has one create a VPA as a dry run, and looks whether the webhook has
// marked it. Nothing is stored. With failure policy Ignore, nothing else shows that a NetworkPolicy, a firewall, a Service or a CA
// keeps them from it.
type Prober struct {
	Client    client.Client // of NewProbeClient
	Namespace string        // that the webhook serves
	Interval  time.Duration
	Started   func() error // nil once API servers may know the webhook
	Clock     clock.WithTicker
	Log       logr.Logger

	last     atomic.Pointer[bool] // whether the last probe reached it; nil = not known
	reached  atomic.Bool          // by any probe so far
	allowed  bool                 // to create VPAs
	failures int                  // in a row
	denied   bool                 // logged that the permission is missing
	notices  notice.Board
}

// NewProbeClient returns a client for a Prober. It drops warnings: policies of the cluster may warn about each probe, and the usual
// client would log every one.
func NewProbeClient(config *rest.Config, options client.Options) (client.Client, error) {
	quiet := rest.CopyConfig(config)
	quiet.WarningHandler, quiet.WarningHandlerWithContext = nil, rest.NoWarnings{}
	probing, err := client.New(quiet, options)
	if err != nil {
		return nil, fmt.Errorf("preparing the client of the webhook's probe: %w", err)
	}
	return probing, nil
}

// NeedLeaderElection is false: every replica looks by its own API server.
func (p *Prober) NeedLeaderElection() bool { return false }

// Start probes at every interval, as soon as the webhook is registered, until the context ends.
func (p *Prober) Start(ctx context.Context) error {
	if wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) { return p.Started() == nil, nil }) != nil {
		return nil // stopped
	}
	ticker := p.Clock.NewTicker(p.Interval)
	defer ticker.Stop()
	for {
		if err := p.probe(ctx); ctx.Err() == nil {
			p.report(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// Unreached is an error while the last probes show that API servers do not reach the webhook any more; nil if they do, if that is
// not known, or if they never did: some providers keep webhooks from kube-system, and others are reached. A nil Prober knows nothing.
func (p *Prober) Unreached() error {
	if p == nil {
		return nil
	}
	if last := p.last.Load(); last != nil && !*last && p.reached.Load() {
		return errors.New("the API server does not reach this webhook any more")
	}
	return nil
}

// unreached is the error of a probe that the webhook did not answer. All other errors leave that open.
type unreached struct{ error }

var errNotPermitted = errors.New("this process may not create VerticalPodAutoscalers")

func (p *Prober) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if !p.allowed { // asked first, so that no audit log has refusals
		allowed, err := p.mayCreate(ctx)
		if err != nil {
			return err
		}
		if p.allowed = allowed; !allowed {
			return errNotPermitted
		}
	}
	vpa := &vpav1.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: probeName + "-", Annotations: map[string]string{probeAnnotation: probeAsked}},
		Spec: vpav1.VerticalPodAutoscalerSpec{
			TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: probeName},
			UpdatePolicy: &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(vpav1.UpdateModeOff)},
		},
	}
	err := p.Client.Create(ctx, vpa, client.DryRunAll)
	switch {
	case err == nil && vpa.Annotations[probeAnnotation] == probeAnswered:
		return nil
	case err == nil:
		return unreached{errors.New("the API server went on without this webhook, as the failure policy says")}
	case strings.Contains(err.Error(), "failed calling webhook") && strings.Contains(err.Error(), WebhookName):
		return unreached{err}
	case ctx.Err() != nil:
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		if _, slow := p.mayCreate(again); slow == nil { // the API server answers everything else
			return unreached{fmt.Errorf("the API server did not create a VerticalPodAutoscaler within %s, and answers other requests: %w", probeTimeout, err)}
		}
	}
	p.allowed = false
	return err
}

func (p *Prober) mayCreate(ctx context.Context) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: p.Namespace, Verb: "create", Group: vpav1.GroupVersion.Group, Resource: "verticalpodautoscalers"}}}
	if err := p.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether VerticalPodAutoscalers may be created: %w", err)
	}
	return review.Status.Allowed, nil
}

// report logs a change, and records it in the metric.
func (p *Prober) report(err error) {
	const reaching, knowing = "reaching the webhook from the API server", "finding out whether API servers reach the webhook"
	log := p.Log.WithValues("namespace", p.Namespace)
	switch {
	case err == nil:
		p.failures = 0
		p.last.Store(ptr.To(true))
		p.reached.Store(true)
		reachable.WithLabelValues().Set(1)
		p.notices.Report(log, reaching, nil, "")
		p.notices.Report(log, knowing, nil, "")
	case errors.As(err, new(unreached)):
		p.notices.Report(log, knowing, nil, "")
		if p.failures++; p.failures >= probeFailures {
			p.last.Store(ptr.To(false))
			reachable.WithLabelValues().Set(0)
			p.notices.Report(log, reaching, err, "the API server does not reach this webhook, so new pods do not get their recommendations; check the MutatingWebhookConfiguration that has "+WebhookName+
				" (its address, CA and namespaceSelector), the Service and its endpoints, NetworkPolicies, and firewalls between the control plane and the nodes")
		}
	case errors.Is(err, errNotPermitted):
		p.last.Store(nil)
		reachable.DeleteLabelValues()
		if !p.denied {
			p.denied = true
			log.Info("not finding out whether API servers reach the webhook: allow this process to create verticalpodautoscalers.autoscaling.k8s.io in this namespace, for dry runs")
		}
	default:
		p.failures = 0
		p.last.Store(nil)
		reachable.DeleteLabelValues()
		p.notices.Report(log, knowing, err, "cannot find out whether API servers reach the webhook; --webhook-probe-interval=0 turns this off")
	}
}
