package webhook

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/conformance/hang"
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
