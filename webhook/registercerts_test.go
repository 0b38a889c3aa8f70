package webhook

import (
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certutil "k8s.io/client-go/util/cert"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/webhook/certificates"
)

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// own makes certificates for the registrar to publish.
func own(t *testing.T, clk *testclock.FakeClock, change func(*certificates.SelfSignedOptions)) *certificates.Source {
	t.Helper()
	o := certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clk, Log: logr.Discard()}
	if change != nil {
		change(&o)
	}
	s, err := certificates.NewSelfSigned(o)
	require.NoError(t, err)
	return s
}

// served parses the chain that a server shows: its certificate, and the CA that signed it.
func served(t *testing.T, c *certificates.Source) (leaf, ca *x509.Certificate) {
	t.Helper()
	pair, err := c.GetCertificate(nil)
	require.NoError(t, err)
	leaf, err = x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	ca, err = x509.ParseCertificate(pair.Certificate[1])
	require.NoError(t, err)
	return leaf, ca
}

// believes returns an error if an API server with a caBundle would refuse to call a host.
func believes(t *testing.T, c *certificates.Source, caBundle []byte, host string, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(caBundle))
	leaf, _ := served(t, c)
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
	return err
}

// TestReplicasRotateWithoutOneUntrustedMoment runs three with a registrar each against one API server, for years. Whatever is in
// the registration, it is trusted that each of them shows.
func TestReplicasRotateWithoutOneUntrustedMoment(t *testing.T) {
	api := fake.NewClientBuilder().Build()
	clk := testclock.NewFakeClock(newYear)
	type replica struct {
		*Registrar
		certs *certificates.Source
	}
	var replicas []replica
	start := func() {
		certs := own(t, clk, func(o *certificates.SelfSignedOptions) { o.CALifetime, o.Lifetime = 365*24*time.Hour, 90*24*time.Hour })
		replicas = append(replicas, replica{certs: certs, Registrar: &Registrar{Client: api, Clock: clk, Log: logr.Discard(), Certificates: certs,
			Registration: Registration{URL: "https://127.0.0.1:1", TimeoutSeconds: 5, FailurePolicy: "Ignore"}}})
		require.NoError(t, replicas[len(replicas)-1].register(t.Context()))
	}
	bundle := func() []byte {
		var config admissionregistrationv1.MutatingWebhookConfiguration
		require.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: ConfigName}, &config))
		return config.Webhooks[0].ClientConfig.CABundle
	}
	var cas sync.Map
	check := func() {
		for _, r := range replicas {
			require.NoError(t, believes(t, r.certs, bundle(), "127.0.0.1", clk.Now()))
			_, ca := served(t, r.certs)
			cas.Store(string(ca.Raw), true)
		}
	}
	for _, pause := range []time.Duration{time.Hour, 30 * time.Hour, 400 * time.Hour} {
		start()
		clk.Step(pause)
	}
	for i := range 200 {
		clk.Step(144 * time.Hour)
		check()
		for j := range 3 { // registrars take turns, and come late
			require.NoError(t, replicas[(i+j)%3].register(t.Context()))
			clk.Step(7 * time.Minute)
			check()
		}
	}
	found := 0
	cas.Range(func(any, any) bool { found++; return true })
	require.Greater(t, found, 15, "each has had several CAs")
	now, err := certutil.ParseCertsPEM(bundle())
	require.NoError(t, err)
	require.LessOrEqual(t, len(now), 6)
}

// TestTwoReplicasThatStartAtOnceDoNotOverwriteEachOther: one writes between the other's reading and writing.
func TestTwoReplicasThatStartAtOnceDoNotOverwriteEachOther(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	for name, there := range map[string]bool{"nothing is registered yet": false, "something is": true} {
		t.Run(name, func(t *testing.T) {
			base := fake.NewClientBuilder().Build()
			registrar := func(c client.Client) *Registrar {
				return &Registrar{Client: c, Clock: clk, Log: logr.Discard(), Certificates: own(t, clk, nil),
					Registration: Registration{URL: "https://127.0.0.1:1", TimeoutSeconds: 5, FailurePolicy: "Ignore"}}
			}
			if there {
				require.NoError(t, registrar(base).register(t.Context()))
			}
			var once sync.Once
			var verbs atomic.Int32
			second := registrar(base)
			between := func() { once.Do(func() { require.NoError(t, second.register(t.Context())) }) }
			first := registrar(interceptor.NewClient(base, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					between()
					verbs.Add(1)
					return c.Create(ctx, o, opts...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					between()
					verbs.Add(1)
					return c.Patch(ctx, o, p, opts...)
				},
			}))
			require.NoError(t, first.register(t.Context()))
			require.EqualValues(t, 2, verbs.Load(), "it came second, and tried again")
			var config admissionregistrationv1.MutatingWebhookConfiguration
			require.NoError(t, base.Get(t.Context(), client.ObjectKey{Name: ConfigName}, &config))
			for _, r := range []*Registrar{first, second} {
				require.NoError(t, believes(t, r.Certificates, config.Webhooks[0].ClientConfig.CABundle, "127.0.0.1", clk.Now()))
			}
		})
	}
}

// TestAStopTakesItsCAOutUnlessItIsTheLast: replicas come and go for ever, and the bundle does not grow. What comes from files stays:
// replicas share it.
func TestAStopTakesItsCAOutUnlessItIsTheLast(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	api := fake.NewClientBuilder().Build()
	bundle := func() string {
		var config admissionregistrationv1.MutatingWebhookConfiguration
		if err := api.Get(t.Context(), client.ObjectKey{Name: ConfigName}, &config); err != nil {
			return err.Error()
		}
		return string(config.Webhooks[0].ClientConfig.CABundle)
	}
	run := func(certs *certificates.Source) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &Registrar{Client: api, Clock: clk, Log: logr.Discard(), Certificates: certs, Started: func() error { return nil },
			Registration: Registration{URL: "https://127.0.0.1:1", TimeoutSeconds: 5, FailurePolicy: "Ignore"}}
		done := make(chan error)
		go func() { done <- r.Start(ctx) }()
		hang.Until(t, func() bool { return r.since.Load() != nil })
		return func() {
			cancel()
			require.NoError(t, <-done)
		}
	}
	first := own(t, clk, nil)
	stopFirst := run(first)
	for range 30 {
		clk.Step(time.Hour)
		next := own(t, clk, nil)
		stop := run(next)
		require.NoError(t, believes(t, next, []byte(bundle()), "127.0.0.1", clk.Now()))
		require.NoError(t, believes(t, first, []byte(bundle()), "127.0.0.1", clk.Now()))
		stop()
		require.Equal(t, string(first.Bundle().PEM()), bundle())
	}
	stopFirst()
	require.Equal(t, string(first.Bundle().PEM()), bundle(), "the last CA stays")

	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	require.NoError(t, err)
	dir := t.TempDir()
	options := certificates.FileOptions{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), Clock: clk, Log: logr.Discard()}
	for path, text := range map[string][]byte{options.CA: cert, options.Cert: cert, options.Key: key} {
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
	files, err := certificates.NewFiles(options)
	require.NoError(t, err)
	clk.Step(time.Hour)
	stop := run(files)
	stop()
	require.Equal(t, string(files.Bundle().PEM()), bundle())

	stop = run(own(t, clk, nil))
	require.NoError(t, api.DeleteAllOf(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{}))
	stop()
	require.Contains(t, bundle(), "not found", "what somebody deleted is not made again by a stop")
}
