package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/webhook/certificates"
)

// The names are upstream's, so that each registration replaces the other (UPSTREAM.md §4.8).
const (
	ConfigName  = "vpa-webhook-config"
	WebhookName = "vpa.k8s.io"
)

// Registration says how API servers reach the webhook. Set either URL or the service.
type Registration struct {
	URL              string
	ServiceNamespace string
	ServiceName      string
	FailurePolicy    admissionregistrationv1.FailurePolicyType
	TimeoutSeconds   int32 // 1 to 30
	Labels           map[string]string
	Namespaces       target.Namespaces
	// OwnNamespace is that of the admission controller. With failure policy Fail its pods are not sent to the webhook; empty = all are.
	OwnNamespace string
}

// Registrar keeps the MutatingWebhookConfiguration in place while the server runs, with the CAs by which API servers trust it. All
// replicas share the configuration; each maintains its own CAs in it.
type Registrar struct {
	Client       client.Client // not cached
	Registration Registration
	Certificates *certificates.Source
	Clock        clock.Clock
	Log          logr.Logger
	// Started returns nil once the server answers; nothing is registered before.
	Started func() error

	since  atomic.Pointer[time.Time] // when it was first registered
	logged string                    // the webhooks of others that were logged last
}

// NeedLeaderElection is false: every replica registers.
func (r *Registrar) NeedLeaderElection() bool { return false }

// Registered returns an error until the webhook is registered and API servers have had time to see it.
func (r *Registrar) Registered() error {
	since := r.since.Load()
	if since == nil {
		return errors.New("the webhook is not registered yet")
	}
	if r.Clock.Since(*since) < noticed {
		return errors.New("the webhook was registered less than a second ago")
	}
	return nil
}

// Start registers as soon as the server answers, checks again every minute, so that a deleted or changed registration comes back,
// and writes at once when the CAs change. It retries failures with backoff until the context ends. Then it removes the CAs that
// no other process needs, and leaves the registration otherwise as it is.
func (r *Registrar) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return r.Started() == nil, nil
	})
	delay := firstRetry
	for err == nil {
		pause := checkInterval
		if failure := r.register(ctx); failure != nil && ctx.Err() == nil {
			r.Log.Error(failure, "cannot register the webhook; trying again", "after", delay.String())
			pause, delay = delay, min(2*delay, checkInterval)
		} else {
			delay = firstRetry
			if r.settles() {
				pause = settling
			}
		}
		timer := r.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-timer.C():
		case <-r.Certificates.Changed():
		}
		timer.Stop()
	}
	if r.since.Load() != nil {
		r.leave(context.WithoutCancel(ctx))
	}
	return nil
}

const (
	firstRetry    = 500 * time.Millisecond
	checkInterval = time.Minute
	// noticed is how long API servers take to see a changed registration.
	noticed = time.Second
	// settling is how long a Service takes to lead to a replica that has just registered: it must be probed, become ready, and the
	// nodes must see its endpoint.
	settling = 30 * time.Second
	// conflicts is how often a write is retried after another replica's.
	conflicts = 10
	// leaveTimeout bounds the last write. A process that is asked to stop does not get much longer.
	leaveTimeout = 5 * time.Second
)

// register creates or corrects the registration.
func (r *Registrar) register(ctx context.Context) error {
	bundle := r.Certificates.Bundle()
	var result string
	if err := retryConflict(func() (err error) { result, err = r.write(ctx, bundle); return err }); err != nil {
		return err
	}
	now := r.Clock.Now()
	r.since.CompareAndSwap(nil, &now)
	r.Certificates.Published(bundle)
	if result != "" {
		r.Log.Info("webhook registered", "config", ConfigName, "result", result, "at", r.Registration.target())
	}
	return nil
}

// settles reports whether API servers may not reach this replica yet.
func (r *Registrar) settles() bool {
	since := r.since.Load()
	return since == nil || r.Clock.Since(*since) < settling
}

// failurePolicy is that of the registration, but Ignore while a first replica settles: API servers would refuse pods that no replica
// could have reviewed yet. One that refuses them already goes on.
func (r *Registrar) failurePolicy(before *admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.FailurePolicyType {
	out := r.Registration.FailurePolicy
	refuses := ptr.Deref(before.FailurePolicy, out) == admissionregistrationv1.Fail && targetOf(before.ClientConfig) == r.Registration.target()
	if r.settles() && !refuses {
		out = admissionregistrationv1.Ignore
	}
	return &out
}

// retryConflict retries when another replica wrote first.
func retryConflict(do func() error) error {
	err := do()
	for range conflicts {
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
		err = do()
	}
	return err
}

// leave takes the CAs of this process out of the registration: with every start there would be one more, until they push out those
// of replicas that live. Somebody's CA stays in any case, because without one API servers would trust whoever the world trusts.
func (r *Registrar) leave(ctx context.Context) {
	bundle := r.Certificates.Bundle()
	if !bundle.Private {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	err := retryConflict(func() error {
		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: ConfigName}, config); err != nil {
			return client.IgnoreNotFound(err)
		}
		before, changed := config.DeepCopy(), false
		for i := range config.Webhooks {
			w := &config.Webhooks[i].ClientConfig
			if rest := bundle.Withdrawn().Merge(w.CABundle, r.Clock.Now()); config.Webhooks[i].Name == WebhookName && len(rest) > 0 && !bytes.Equal(rest, w.CABundle) {
				w.CABundle, changed = rest, true
			}
		}
		if !changed {
			return nil
		}
		return r.Client.Patch(ctx, config, ownEntry(before))
	})
	if err != nil {
		r.Log.Error(err, "cannot remove this process's CA from the registration; it stays there until it expires", "config", ConfigName)
	}
}

// write replaces the webhook of our name, whoever wrote it, and keeps those of others. It needs only the verbs that upstream's role
// grants: get, create and patch. The result is "created", "updated" or, if nothing changed, empty.
func (r *Registrar) write(ctx context.Context, bundle certificates.Bundle) (result string, err error) {
	config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigName}}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(config), config)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("reading MutatingWebhookConfiguration %s: %w", ConfigName, err)
	}
	before, missing := config.DeepCopy(), err != nil
	r.logOthers(before.Webhooks)
	if config.Labels == nil {
		config.Labels = map[string]string{}
	}
	maps.Copy(config.Labels, r.Registration.Labels)
	at := slices.IndexFunc(config.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return w.Name == WebhookName })
	if at < 0 {
		at, config.Webhooks = len(config.Webhooks), append(config.Webhooks, admissionregistrationv1.MutatingWebhook{})
	}
	replaced, policy := config.Webhooks[at].ClientConfig, r.failurePolicy(&config.Webhooks[at])
	config.Webhooks[at] = r.Registration.webhook(bundle.Merge(replaced.CABundle, r.Clock.Now()))
	config.Webhooks[at].FailurePolicy = policy
	switch {
	case missing:
		result, err = "created", r.Client.Create(ctx, config)
	case equality.Semantic.DeepEqual(before.Webhooks, config.Webhooks) && maps.Equal(before.Labels, config.Labels):
		return "", nil
	default:
		// The optimistic lock keeps two replicas from overwriting each other's CAs.
		result, err = "updated", r.Client.Patch(ctx, config, ownEntry(before))
	}
	if err != nil {
		return "", fmt.Errorf("writing MutatingWebhookConfiguration %s: %w", ConfigName, err)
	}
	if was, is := targetOf(replaced), targetOf(config.Webhooks[at].ClientConfig); was != "" && was != is {
		r.Log.Info("replaced the registration of another server, which API servers no longer call", "config", ConfigName, "webhook", WebhookName, "was", shorten(was), "is", is)
	}
	return result, nil
}

// ownEntry patches webhooks by name, so that the webhooks of others are not written.
func ownEntry(before client.Object) client.Patch {
	return client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
}

// logOthers logs once which webhooks are not ours. Upstream deletes them with the registration.
func (r *Registrar) logOthers(webhooks []admissionregistrationv1.MutatingWebhook) {
	var names []string
	for _, w := range webhooks {
		if w.Name != WebhookName {
			names = append(names, w.Name)
		}
	}
	others := shorten(strings.Join(names, ", "))
	if others != "" && others != r.logged {
		r.Log.Info("the registration has webhooks of others, which stay as they are", "config", ConfigName, "webhooks", others)
	}
	r.logged = others
}

func (r Registration) target() string { return targetOf(r.clientConfig(nil)) }

// targetOf names the server that API servers call; empty without one.
func targetOf(c admissionregistrationv1.WebhookClientConfig) string {
	switch {
	case c.URL != nil:
		return *c.URL
	case c.Service != nil:
		return "service " + c.Service.Namespace + "/" + c.Service.Name
	}
	return ""
}

// clientConfig says how API servers reach the webhook.
func (r Registration) clientConfig(caBundle []byte) admissionregistrationv1.WebhookClientConfig {
	c := admissionregistrationv1.WebhookClientConfig{CABundle: caBundle}
	if r.URL != "" {
		c.URL = &r.URL
	} else {
		// API servers fill in the default port. Without it, the stored object would look changed.
		c.Service = &admissionregistrationv1.ServiceReference{Namespace: r.ServiceNamespace, Name: r.ServiceName, Port: ptr.To[int32](443)}
	}
	return c
}

func (r Registration) webhook(caBundle []byte) admissionregistrationv1.MutatingWebhook {
	rule := func(operations []admissionregistrationv1.OperationType, group, version, resource string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: operations,
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource},
				Scope: ptr.To(admissionregistrationv1.AllScopes),
			},
		}
	}
	return admissionregistrationv1.MutatingWebhook{
		Name:                    WebhookName,
		AdmissionReviewVersions: []string{"v1"},
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          &r.TimeoutSeconds,
		FailurePolicy:           &r.FailurePolicy,
		MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
		ReinvocationPolicy:      ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
		ClientConfig:            r.clientConfig(caBundle),
		NamespaceSelector:       r.namespaceSelector(),
		ObjectSelector:          &metav1.LabelSelector{},
		MatchConditions:         r.matchConditions(),
		Rules: []admissionregistrationv1.RuleWithOperations{
			rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Create}, "", "v1", "pods"),
			rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				vpav1.GroupVersion.Group, "*", "verticalpodautoscalers"),
		},
	}
}

// namespaceSelector selects the served namespaces (UPSTREAM.md Appendix B 17).
func (r Registration) namespaceSelector() *metav1.LabelSelector {
	const name = "kubernetes.io/metadata.name"
	selector := &metav1.LabelSelector{}
	if r.Namespaces.Only != "" {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: name, Operator: metav1.LabelSelectorOpIn, Values: []string{r.Namespaces.Only}})
	}
	if len(r.Namespaces.Ignored) > 0 {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: name, Operator: metav1.LabelSelectorOpNotIn, Values: r.Namespaces.Ignored})
	}
	return selector
}

// ownPods is the name of the condition that leaves out pods of the admission controller's own namespace.
const ownPods = "no-pods-of-the-webhook"

// matchConditions leave out pods of the own namespace with failure policy Fail. They would be refused once no replica answers, the
// replicas that could answer included. VPAs of the namespace are sent all the same, and so are probes.
func (r Registration) matchConditions() []admissionregistrationv1.MatchCondition {
	if r.FailurePolicy != admissionregistrationv1.Fail || r.OwnNamespace == "" || !r.Namespaces.Serve(r.OwnNamespace) || r.Deadlocks() {
		return nil
	}
	return []admissionregistrationv1.MatchCondition{noPodsOf(r.OwnNamespace)}
}

// Deadlocks reports whether no pod of the own namespace can start while no replica answers: it is the only one that is served, so
// that to leave out its pods would leave none.
func (r Registration) Deadlocks() bool {
	return r.FailurePolicy == admissionregistrationv1.Fail && r.OwnNamespace != "" && r.Namespaces.Only == r.OwnNamespace
}

func noPodsOf(namespace string) admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{Name: ownPods, Expression: fmt.Sprintf("request.resource.resource != 'pods' || request.namespace != '%s'", namespace)}
}

// LeavesOutPodsOf reports whether a registered webhook leaves out the pods of a namespace because it is the admission controller's own.
func LeavesOutPodsOf(namespace string, w *admissionregistrationv1.MutatingWebhook) bool {
	return slices.Contains(w.MatchConditions, noPodsOf(namespace))
}
