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

// The names of the registration are upstream's, so that one replaces the other (UPSTREAM.md §4.8).
const (
	ConfigName  = "vpa-webhook-config"
	WebhookName = "vpa.k8s.io"
)

// Registration says how API servers reach the webhook. Set URL or Service.
type Registration struct {
	URL              string
	ServiceNamespace string
	ServiceName      string
	FailurePolicy    admissionregistrationv1.FailurePolicyType
	TimeoutSeconds   int32 // 1 to 30
	Labels           map[string]string
	Namespaces       target.Namespaces
}

// Registrar keeps the MutatingWebhookConfiguration in place while the server runs, with the CAs by which API servers trust it.
// Replicas share it: each sees to its own CAs.
type Registrar struct {
	Client       client.Client // not cached
	Registration Registration
	Certificates certificates.Source
	Clock        clock.Clock
	Log          logr.Logger
	// Started reports nil once the server answers; nothing is registered before.
	Started func() error

	since atomic.Pointer[time.Time] // when it was registered first
	told  string                    // what was said of the webhooks of others
}

// NeedLeaderElection lets every replica register.
func (r *Registrar) NeedLeaderElection() bool { return false }

// Registered reports an error until the webhook is registered and API servers have had a moment to see it.
func (r *Registrar) Registered() error {
	since := r.since.Load()
	if since == nil {
		return errors.New("the webhook is not registered yet")
	}
	if r.Clock.Since(*since) < noticed {
		return errors.New("the webhook was registered only now")
	}
	return nil
}

// Start registers as soon as the server answers, and looks again every minute, and at once when the certificates need other
// CAs: a registration that was deleted or changed comes back. Failures are tried again, less and less often, until the
// context ends. Then it takes the CAs out that nobody else needs, and leaves the registration otherwise as it is.
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
	return nil // stopped
}

const (
	firstRetry    = 500 * time.Millisecond
	checkInterval = time.Minute
	// noticed is the time in which API servers see a change of the registration.
	noticed = time.Second
	// conflicts is how often another writer may come first before it counts as a failure.
	conflicts = 10
	// leaveTimeout is how long the last writing may take. A process that is asked to stop is not given much longer.
	leaveTimeout = 5 * time.Second
)

// register makes the registration what it should be.
func (r *Registrar) register(ctx context.Context) error {
	bundle := r.Certificates.Bundle()
	var result string
	if err := unlessOvertaken(func() (err error) { result, err = r.write(ctx, bundle); return err }); err != nil {
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

// unlessOvertaken does something again when another replica was quicker.
func unlessOvertaken(do func() error) error {
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
	err := unlessOvertaken(func() error {
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
		r.Log.Error(err, "the CA of this process stays in the registration until it expires", "config", ConfigName)
	}
}

// write changes the one webhook that has our name, whoever wrote it before, and leaves those of others alone. It uses the verbs that
// upstream's role grants: get, create, patch. It tells what it did; nothing where all is well.
func (r *Registrar) write(ctx context.Context, bundle certificates.Bundle) (result string, err error) {
	config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigName}}
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(config), config)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("reading MutatingWebhookConfiguration %s: %w", ConfigName, err)
	}
	before, missing := config.DeepCopy(), err != nil
	r.tellOthers(before.Webhooks)
	if config.Labels == nil {
		config.Labels = map[string]string{}
	}
	maps.Copy(config.Labels, r.Registration.Labels)
	at := slices.IndexFunc(config.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return w.Name == WebhookName })
	if at < 0 {
		at, config.Webhooks = len(config.Webhooks), append(config.Webhooks, admissionregistrationv1.MutatingWebhook{})
	}
	replaced := config.Webhooks[at].ClientConfig
	config.Webhooks[at] = r.Registration.webhook(bundle.Merge(replaced.CABundle, r.Clock.Now()))
	switch {
	case missing:
		result, err = "created", r.Client.Create(ctx, config)
	case equality.Semantic.DeepEqual(before.Webhooks, config.Webhooks) && maps.Equal(before.Labels, config.Labels):
		return "", nil
	default:
		// Of two replicas that add their CAs at the same time, the second reads what the first wrote.
		result, err = "updated", r.Client.Patch(ctx, config, ownEntry(before))
	}
	if err != nil {
		return "", fmt.Errorf("writing MutatingWebhookConfiguration %s: %w", ConfigName, err)
	}
	if was, is := targetOf(replaced), targetOf(config.Webhooks[at].ClientConfig); was != "" && was != is {
		r.Log.Info("the webhook was registered for another server, which API servers no longer call", "config", ConfigName, "webhook", WebhookName, "was", shorten(was), "is", is)
	}
	return result, nil
}

// ownEntry changes webhooks by name, so that what others wrote is not written again.
func ownEntry(before client.Object) client.Patch {
	return client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
}

// tellOthers says once which webhooks are not ours. Upstream deletes them with the registration.
func (r *Registrar) tellOthers(webhooks []admissionregistrationv1.MutatingWebhook) {
	var names []string
	for _, w := range webhooks {
		if w.Name != WebhookName {
			names = append(names, w.Name)
		}
	}
	told := shorten(strings.Join(names, ", "))
	if told != "" && told != r.told {
		r.Log.Info("the registration also has webhooks of others, which stay as they are", "config", ConfigName, "webhooks", told)
	}
	r.told = told
}

func (r Registration) target() string { return targetOf(r.clientConfig(nil)) }

// targetOf says whom API servers call; nothing where nobody is given.
func targetOf(c admissionregistrationv1.WebhookClientConfig) string {
	switch {
	case c.URL != nil:
		return *c.URL
	case c.Service != nil:
		return "service " + c.Service.Namespace + "/" + c.Service.Name
	}
	return ""
}

// clientConfig is how API servers reach the webhook.
func (r Registration) clientConfig(caBundle []byte) admissionregistrationv1.WebhookClientConfig {
	c := admissionregistrationv1.WebhookClientConfig{CABundle: caBundle}
	if r.URL != "" {
		c.URL = &r.URL
	} else {
		// The port is the default, which API servers fill in: without it, it would look as if somebody had changed it.
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
		Rules: []admissionregistrationv1.RuleWithOperations{
			rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Create}, "", "v1", "pods"),
			rule([]admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				vpav1.GroupVersion.Group, "*", "verticalpodautoscalers"),
		},
	}
}

// namespaceSelector matches the namespaces that are served (UPSTREAM.md Appendix B 17).
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
