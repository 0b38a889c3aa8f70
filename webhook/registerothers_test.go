package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/celvpa/celvpa/webhook/certificates"
)

// TestTheRegistrationLeavesWebhooksOfOthersAlone: the configuration of our name is there already. Of its webhooks, the one that has
// our name is taken over, as it is upstream's. Somebody else may rely on all others.
func TestTheRegistrationLeavesWebhooksOfOthersAlone(t *testing.T) {
	entry := func(name, service string) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{Name: name, AdmissionReviewVersions: []string{"v1"},
			SideEffects:     ptr.To(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:   ptr.To(admissionregistrationv1.Fail),
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "some", Expression: "true"}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: []byte("theirs"),
				Service: &admissionregistrationv1.ServiceReference{Namespace: "kube-system", Name: service, Path: ptr.To("/" + name)}}}
	}
	const replaced, kept = "replaced the registration of another server", "the registration has webhooks of others"
	for _, c := range []struct {
		name   string
		there  []admissionregistrationv1.MutatingWebhook
		want   []string          // the names, in order
		logged map[string]string // message to value, each logged once
	}{
		{name: "upstream's", there: []admissionregistrationv1.MutatingWebhook{entry(WebhookName, "vpa-webhook")},
			want: []string{WebhookName}, logged: map[string]string{replaced: "service kube-system/vpa-webhook"}},
		{name: "somebody's", there: []admissionregistrationv1.MutatingWebhook{entry("a.example.com", "a"), entry("z.example.com", "z")},
			want: []string{"a.example.com", "z.example.com", WebhookName}, logged: map[string]string{kept: "a.example.com, z.example.com"}},
		{name: "both", there: []admissionregistrationv1.MutatingWebhook{entry("a.example.com", "a"), entry(WebhookName, "vpa-webhook"), entry("z.example.com", "z")},
			want:   []string{"a.example.com", WebhookName, "z.example.com"},
			logged: map[string]string{replaced: "service kube-system/vpa-webhook", kept: "a.example.com, z.example.com"}},
		{name: "empty", want: []string{WebhookName}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := &admissionregistrationv1.MutatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: ConfigName, Labels: map[string]string{"team": "other"}, Annotations: map[string]string{"note": "ours"}}, Webhooks: c.there}
			api := fake.NewClientBuilder().WithObjects(before.DeepCopy()).Build()
			clk := testclock.NewFakeClock(time.Now())
			certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clk, Log: logr.Discard()})
			require.NoError(t, err)
			var lines []string
			r := &Registrar{Client: api, Clock: clk, Certificates: certs, Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}),
				Registration: Registration{URL: "https://127.0.0.1:1", TimeoutSeconds: 5, FailurePolicy: "Ignore", Labels: map[string]string{"a": "b"}}}
			look := func() {
				after := &admissionregistrationv1.MutatingWebhookConfiguration{}
				require.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: ConfigName}, after))
				require.Equal(t, map[string]string{"team": "other", "a": "b"}, after.Labels)
				require.Equal(t, before.Annotations, after.Annotations)
				var names []string
				for _, w := range after.Webhooks {
					names = append(names, w.Name)
					if w.Name == WebhookName {
						want := r.Registration.webhook(w.ClientConfig.CABundle)
						require.Equal(t, want, w)
						continue
					}
					require.Contains(t, c.there, w)
				}
				require.Equal(t, c.want, names)
			}
			require.NoError(t, r.register(t.Context()))
			look()
			require.NoError(t, r.register(t.Context()))
			look()
			for _, text := range []string{replaced, kept} {
				var found []string
				for _, line := range lines {
					if strings.Contains(line, text) {
						found = append(found, line)
					}
				}
				if c.logged[text] == "" {
					require.Empty(t, found)
					continue
				}
				require.Len(t, found, 1, "it is logged once")
				require.Contains(t, found[0], `"`+c.logged[text]+`"`)
			}
			r.leave(t.Context())
			look()
		})
	}
}
