package webhook

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/target"
	"github.com/celvpa/celvpa/webhook/certificates"
)

// TestTheRegistrationIsTriedUntilItSucceedsAndPutBackWhenItIsGone: refusals for longer than any back-off cap.
func TestTheRegistrationIsTriedUntilItSucceedsAndPutBackWhenItIsGone(t *testing.T) {
	var refusals, writes atomic.Int32
	refusals.Store(12)
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if refusals.Add(-1) >= 0 {
				return errors.New("forbidden")
			}
			writes.Add(1)
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			writes.Add(1)
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	clk := testclock.NewFakeClock(time.Now())
	certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clk, Log: logr.Discard()})
	require.NoError(t, err)
	r := &Registrar{Client: api, Clock: clk, Log: logr.Discard(), Started: func() error { return nil }, Certificates: certs,
		Registration: Registration{URL: "https://127.0.0.1:1", TimeoutSeconds: 5, FailurePolicy: "Ignore", Labels: map[string]string{"a": "b"}}}
	require.Error(t, r.Registered())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Start(ctx) }()
	step := func() {
		hang.Until(t, clk.HasWaiters)
		clk.Step(checkInterval)
	}
	for range 12 {
		step()
	}
	hang.Until(t, func() bool { return r.since.Load() != nil })
	require.ErrorContains(t, r.Registered(), "less than a second ago", "API servers have not seen it yet")
	clk.Step(noticed)
	require.NoError(t, r.Registered())
	read := func() *admissionregistrationv1.MutatingWebhookConfiguration {
		var config admissionregistrationv1.MutatingWebhookConfiguration
		if api.Get(ctx, client.ObjectKey{Name: ConfigName}, &config) != nil {
			return nil
		}
		return &config
	}
	require.Equal(t, "b", read().Labels["a"])

	step()
	hang.Until(t, clk.HasWaiters)
	require.EqualValues(t, 1, writes.Load(), "nothing is written while nothing changed")

	require.NoError(t, api.Delete(ctx, read()))
	step()
	hang.Until(t, func() bool { return read() != nil })

	changed := read()
	changed.Webhooks[0].ClientConfig.CABundle = []byte("another")
	require.NoError(t, api.Update(ctx, changed))
	step()
	hang.Until(t, func() bool { return bytes.Equal(read().Webhooks[0].ClientConfig.CABundle, certs.Bundle().PEM()) })
	cancel()
	require.NoError(t, <-done)
}

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

// With failure policy Fail, a first replica would have pods refused for as long as its Service does not lead to it.
func TestAFirstRegistrationRefusesNoPodUntilAServiceCanLeadToIt(t *testing.T) {
	clk := testclock.NewFakeClock(time.Now())
	certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clk, Log: logr.Discard()})
	require.NoError(t, err)
	api := fake.NewClientBuilder().Build()
	replica := func() *Registrar {
		return &Registrar{Client: api, Clock: clk, Certificates: certs, Log: logr.Discard(), Started: func() error { return nil },
			Registration: Registration{ServiceNamespace: "vpa", ServiceName: "webhook", TimeoutSeconds: 5, FailurePolicy: "Fail"}}
	}
	read := func() *admissionregistrationv1.MutatingWebhookConfiguration {
		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		require.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: ConfigName}, config))
		return config
	}
	policy := func() admissionregistrationv1.FailurePolicyType { return *read().Webhooks[0].FailurePolicy }

	first, second := replica(), replica()
	require.NoError(t, first.register(t.Context()))
	require.EqualValues(t, "Ignore", policy())
	clk.Step(settling - time.Second)
	require.NoError(t, second.register(t.Context()))
	require.NoError(t, first.register(t.Context()))
	require.EqualValues(t, "Ignore", policy(), "neither of two that start together")
	clk.Step(time.Second)
	require.NoError(t, first.register(t.Context()))
	require.EqualValues(t, "Fail", policy())
	require.NoError(t, second.register(t.Context()))
	require.NoError(t, replica().register(t.Context()))
	require.EqualValues(t, "Fail", policy(), "one more replica, or the next version, changes nothing")

	require.NoError(t, api.Delete(t.Context(), read()))
	require.NoError(t, first.register(t.Context()))
	require.EqualValues(t, "Fail", policy(), "it can be reached, and the registration was deleted")

	moved := replica()
	moved.Registration.ServiceName = "other"
	require.NoError(t, moved.register(t.Context()))
	require.EqualValues(t, "Ignore", policy(), "nothing is known of the other Service")

	require.NoError(t, api.Delete(t.Context(), read()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	alone := replica()
	go func() { done <- alone.Start(ctx) }()
	hang.Until(t, func() bool { return alone.since.Load() != nil && clk.HasWaiters() })
	require.EqualValues(t, "Ignore", policy())
	clk.Step(settling)
	hang.Until(t, func() bool { return policy() == "Fail" })
	cancel()
	require.NoError(t, <-done)
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
