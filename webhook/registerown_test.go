package webhook

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/webhook/certificates"
)

// sent reports whether the match conditions of a webhook let an API server send it an object.
func sent(t *testing.T, w admissionregistrationv1.MutatingWebhook, resource, namespace string) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.Variable("request", cel.DynType))
	require.NoError(t, err)
	for _, c := range w.MatchConditions {
		ast, issues := env.Compile(c.Expression)
		require.NoError(t, issues.Err())
		program, err := env.Program(ast)
		require.NoError(t, err)
		matches, _, err := program.Eval(map[string]any{"request": map[string]any{"namespace": namespace, "resource": map[string]any{"resource": resource}}})
		require.NoError(t, err)
		if matches.Value() != true {
			return false
		}
	}
	return true
}

// With failure policy Fail and no replica left, a new replica must not need the webhook.
func TestPodsOfTheOwnNamespaceAreLeftOutWithFailurePolicyFail(t *testing.T) {
	for name, tt := range map[string]struct {
		registration Registration
		leftOut      bool
	}{
		"all namespaces":               {Registration{FailurePolicy: "Fail", OwnNamespace: "vpa"}, true},
		"another namespace is ignored": {Registration{FailurePolicy: "Fail", OwnNamespace: "vpa", Namespaces: target.Namespaces{Ignored: []string{"a"}}}, true},
		"the selector ignores it":      {Registration{FailurePolicy: "Fail", OwnNamespace: "vpa", Namespaces: target.Namespaces{Ignored: []string{"vpa"}}}, false},
		"the selector has another one": {Registration{FailurePolicy: "Fail", OwnNamespace: "vpa", Namespaces: target.Namespaces{Only: "a"}}, false},
		"nothing else is served":       {Registration{FailurePolicy: "Fail", OwnNamespace: "vpa", Namespaces: target.Namespaces{Only: "vpa"}}, false},
		"Ignore":                       {Registration{FailurePolicy: "Ignore", OwnNamespace: "vpa"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := tt.registration.webhook(nil)
			require.Equal(t, !tt.leftOut, sent(t, w, "pods", "vpa"))
			require.True(t, sent(t, w, "pods", "shop"))
			require.True(t, sent(t, w, "verticalpodautoscalers", "vpa"), "as probes do")
			require.Equal(t, tt.leftOut, LeavesOutPodsOf("vpa", &w))
			require.False(t, LeavesOutPodsOf("shop", &w))
			require.Equal(t, name == "nothing else is served", tt.registration.Deadlocks())
		})
	}
}

// A registration of before gets the condition, and loses it with failure policy Ignore.
func TestTheConditionFollowsTheFailurePolicy(t *testing.T) {
	clk := testclock.NewFakeClock(time.Now())
	certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clk, Log: logr.Discard()})
	require.NoError(t, err)
	r := &Registrar{Client: fake.NewClientBuilder().Build(), Clock: clk, Certificates: certs, Log: logr.Discard(),
		Registration: Registration{URL: "https://127.0.0.1:1", TimeoutSeconds: 5, FailurePolicy: "Fail"}}
	registered := func() admissionregistrationv1.MutatingWebhook {
		require.NoError(t, r.register(t.Context()))
		var config admissionregistrationv1.MutatingWebhookConfiguration
		require.NoError(t, r.Client.Get(t.Context(), client.ObjectKey{Name: ConfigName}, &config))
		return config.Webhooks[0]
	}
	require.True(t, sent(t, registered(), "pods", "vpa"))
	r.Registration.OwnNamespace = "vpa"
	require.False(t, sent(t, registered(), "pods", "vpa"))
	r.Registration.FailurePolicy = "Ignore"
	require.True(t, sent(t, registered(), "pods", "vpa"))
}
