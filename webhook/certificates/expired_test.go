package certificates

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/conformance/hang"
)

// TestACertificateThatHasExpiredIsLoggedOnce, at the start and later.
func TestACertificateThatHasExpiredIsLoggedOnce(t *testing.T) {
	clk, s := testclock.NewFakeClock(newYear), newSecret(t)
	ca := someCA(t, newYear)
	s.issue(t, ca, newYear)
	clk.Step(2 * time.Hour)
	log := newMemo()
	o := s.options(clk)
	o.Log, o.Reload = log.log(), true
	f, err := NewFiles(o)
	require.NoError(t, err, "a file that is renewed late heals by itself")
	logged := log.written()
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], "the serving certificate or its CA has expired")
	require.Contains(t, logged[0], s.path("tls.crt"))

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Start(ctx) }()
	step := func() {
		hang.Until(t, clk.HasWaiters)
		clk.Step(pollInterval)
	}
	step()
	step()
	s.issue(t, ca, clk.Now())
	from, until := clk.Now().Add(-clockSkew), clk.Now().Add(time.Hour)
	hang.Until(t, func() bool { step(); return testutil.ToFloat64(expires.WithLabelValues()) == float64(until.Unix()) })
	require.Equal(t, float64(from.Unix()), testutil.ToFloat64(begins.WithLabelValues()))
	require.NotContains(t, strings.Join(log.written(), ""), "expired")
	clk.Step(2 * time.Hour)
	step()
	step()
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, 1, strings.Count(strings.Join(log.written(), ""), "the serving certificate or its CA has expired"))
}

// TestACAThatExpiresBeforeItsCertificateIsLogged: API servers trust neither.
func TestACAThatExpiresBeforeItsCertificateIsLogged(t *testing.T) {
	clk, s := testclock.NewFakeClock(newYear), newSecret(t)
	ca := someCA(t, newYear)
	end := ca.cert.NotAfter
	clk.SetTime(end.Add(-30 * time.Minute))
	longer := *ca.cert // issuers clip, but not all
	longer.NotAfter = end.Add(24 * time.Hour)
	s.issue(t, &authority{cert: &longer, key: ca.key}, clk.Now())
	log := newMemo()
	o := s.options(clk)
	o.Log = log.log()
	f, err := NewFiles(o)
	require.NoError(t, err)
	require.Empty(t, log.written())
	require.True(t, f.serving.pair.Leaf.NotAfter.After(end), "the certificate lasts longer")
	require.Equal(t, end, f.serving.until())
	clk.SetTime(end.Add(time.Second))
	f.tick()
	logged := log.written()
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], s.path("ca.crt"))
}

// TestOnlyTheCertificateOfTheWebhookIsMeasured: regression, those of --secure-metrics-address and --explain-address wrote the same
// gauges, so an alert could be about the wrong certificate, or stay silent.
func TestOnlyTheCertificateOfTheWebhookIsMeasured(t *testing.T) {
	expires.Reset()
	for _, measured := range []bool{false, true} {
		s, err := NewSelfSigned(SelfSignedOptions{Hosts: []string{"localhost"}, Measured: measured, Clock: clock.RealClock{}, Log: logr.Discard()})
		require.NoError(t, err)
		s.tick()
		require.Equal(t, measured, testutil.CollectAndCount(expires) == 1)
	}
}
