package explain

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/explain/ask"
)

// configuration registers webhooks for all namespaces but some.
func configuration(name, webhook string, but ...string) *admissionregistrationv1.MutatingWebhookConfiguration {
	hook := admissionregistrationv1.MutatingWebhook{Name: webhook}
	if len(but) > 0 {
		hook.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: but}}}
	}
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.MutatingWebhook{hook}}
}

// ofItsOwn leaves out the pods of its own namespace.
func ofItsOwn(namespace string) *admissionregistrationv1.MutatingWebhookConfiguration {
	out := configuration("vpa-webhook-config", "vpa.k8s.io")
	out.Webhooks[0].MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "no-pods-of-the-webhook", Expression: "request.resource.resource != 'pods' || request.namespace != '" + namespace + "'"}}
	return out
}

// TestTheWebhookIsFoundUnderAnyName, also by users who may not list configurations, if it has the usual one.
func TestTheWebhookIsFoundUnderAnyName(t *testing.T) {
	const unread = "whether the webhook is registered: cannot read MutatingWebhookConfigurations: no permission to read them"
	const charts = "vpa-vertical-pod-autoscaler-webhook-config"
	for name, tt := range map[string]struct {
		there   []client.Object
		mayList bool
		want    []string // tokens and whom they are about
		unknown []string
	}{
		"none":                             {nil, true, []string{"admission-not-registered MutatingWebhookConfiguration vpa-webhook-config"}, nil},
		"another webhook only":             {[]client.Object{configuration("mesh", "mesh.example")}, true, []string{"admission-not-registered MutatingWebhookConfiguration vpa-webhook-config"}, nil},
		"the usual one":                    {[]client.Object{configuration("vpa-webhook-config", "vpa.k8s.io")}, true, nil, nil},
		"one of a chart":                   {[]client.Object{configuration(charts, "vpa.k8s.io")}, true, nil, nil},
		"one that skips the namespace":     {[]client.Object{configuration(charts, "vpa.k8s.io", "shop")}, true, []string{"admission-skips-namespace MutatingWebhookConfiguration " + charts}, nil},
		"one that leaves out own pods":     {[]client.Object{ofItsOwn("shop")}, true, []string{"admission-skips-namespace MutatingWebhookConfiguration vpa-webhook-config"}, nil},
		"one that leaves out others":       {[]client.Object{ofItsOwn("bank")}, true, nil, nil},
		"two, one of which skips it":       {[]client.Object{configuration("a", "vpa.k8s.io", "shop"), configuration("b", "vpa.k8s.io", "bank")}, true, nil, nil},
		"the usual one, without list":      {[]client.Object{configuration("vpa-webhook-config", "vpa.k8s.io")}, false, nil, nil},
		"one that skips it, without list":  {[]client.Object{configuration("vpa-webhook-config", "vpa.k8s.io", "shop")}, false, []string{"admission-skips-namespace MutatingWebhookConfiguration vpa-webhook-config"}, nil},
		"one of a chart, without list":     {[]client.Object{configuration(charts, "vpa.k8s.io")}, false, nil, []string{unread}},
		"an empty usual one, without list": {[]client.Object{configuration("vpa-webhook-config", "mesh.example")}, false, nil, []string{unread}},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"kubernetes.io/metadata.name": "shop"}}}
			c := interceptor.NewClient(api(t, append(tt.there, namespace)...).(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, are := list.(*admissionregistrationv1.MutatingWebhookConfigurationList); are && !tt.mayList {
						return apierrors.NewForbidden(schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}, "", nil)
					}
					return c.List(ctx, list, opts...)
				},
			})
			o := gather(t.Context(), c, vpaOf("web", "Deployment", "web"), false)
			var found []string
			for _, f := range o.webhookFindings() {
				found = append(found, f.Token+" "+f.About)
			}
			require.Equal(t, tt.want, found)
			require.Equal(t, tt.unknown, o.unknown)
		})
	}
}

// TestAReplicaThatLeavesRegisteringToSomethingElseIsNoFault, unlike one that has not registered yet.
func TestAReplicaThatLeavesRegisteringToSomethingElseIsNoFault(t *testing.T) {
	v := vpaOf("web", "Deployment", "web")
	require.Empty(t, composed(v, &ask.Result{Admission: []answers.Admission{{}}}).Findings)
	waits := composed(v, &ask.Result{Admission: []answers.Admission{{Registered: "the webhook is not registered yet"}}})
	require.Equal(t, []string{"admission-not-registered: the webhook is not registered yet"}, tokensOf(waits.Findings))
}

// TestAPodThatHadNoNameAtAdmissionIsOneOfItsOwner: the API server names pods of controllers afterwards.
func TestAPodThatHadNoNameAtAdmissionIsOneOfItsOwner(t *testing.T) {
	for pod, about := range map[string]string{"web-7c5687bd57-%": "a new pod of web-7c5687bd57", "web-0": "pod web-0"} {
		got := lastAdmission([]answers.Admission{{Admissions: []answers.Admitted{{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Pod: pod, Allowed: true}}}})
		require.Equal(t, about, got.About)
		require.Equal(t, "the admission controller saw it at 2026-01-01T00:00:00Z: nothing to change", got.Text)
	}
}

// Regression: a VPA in mode Off was reported as blocked without a webhook, which it does not need.
func TestModeOffNeedsNoWebhook(t *testing.T) {
	v := vpaOf("web", "Deployment", "web")
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: ptr.To(vpav1.UpdateModeOff)}
	findings := func(boosts bool) []Finding {
		book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: map[string]bool{"CPUStartupBoost": boosts}})
		require.NoError(t, err)
		o := &objects{vpa: v, hooksRead: true}
		o.ruledBy(book)
		return o.webhookFindings()
	}
	require.Empty(t, findings(true))
	v.Spec.StartupBoost = &vpav1.StartupBoost{CPU: &vpav1.StartupBoostResource{Type: "Factor"}}
	require.NotEmpty(t, findings(true), "boosts need it in mode Off, too")
	require.Empty(t, findings(false), "but not without their gate")
}
