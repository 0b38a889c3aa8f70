package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync"
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
)

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// shown is the certificate that a server shows now.
func shown(t *testing.T, c Certificates) *x509.Certificate {
	t.Helper()
	pair, err := c.GetCertificate(nil)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	return leaf
}

// believes tells whether an API server with a caBundle would call a host.
func believes(t *testing.T, c Certificates, caBundle []byte, host string, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(caBundle))
	_, err := shown(t, c).Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
	return err
}

func own(t *testing.T, clk *testclock.FakeClock, change func(*OwnOptions)) *SelfSigned {
	t.Helper()
	o := OwnOptions{Hosts: []string{"127.0.0.1", "vpa-webhook.kube-system.svc"}, Clock: clk, Log: logr.Discard()}
	if change != nil {
		change(&o)
	}
	s, err := NewOwn(o)
	require.NoError(t, err)
	return s
}

func TestTheServingCertificateIsTrustedForItsHostsAndRenewed(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, nil)
	ca := certs.Bundle().PEM()
	require.NoError(t, believes(t, certs, ca, "127.0.0.1", clk.Now()))
	require.NoError(t, believes(t, certs, ca, "vpa-webhook.kube-system.svc", clk.Now()))
	require.Error(t, believes(t, certs, ca, "elsewhere", clk.Now()))
	first := shown(t, certs)
	clk.Step(DefaultServingLifetime*2/3 - time.Second)
	require.True(t, first.Equal(shown(t, certs)))
	clk.Step(time.Second)
	renewed := shown(t, certs)
	require.False(t, first.Equal(renewed))
	clk.Step(DefaultServingLifetime / 2)
	require.NoError(t, believes(t, certs, ca, "127.0.0.1", clk.Now()), "still valid long after the first would have ended")
	require.Equal(t, ca, certs.Bundle().PEM(), "the CA is the same")
}

func TestALongHostNameIsNoCommonName(t *testing.T) {
	host := "vpa-webhook.a-namespace-whose-name-is-as-long-as-names-of-namespaces-may-be.svc"
	certs := own(t, testclock.NewFakeClock(newYear), func(o *OwnOptions) { o.Hosts = []string{host} })
	require.NoError(t, believes(t, certs, certs.Bundle().PEM(), host, newYear))
}

// TestANewCAIsPublishedBeforeItSigns, and the old one stays until nobody can show certificates of it any more.
func TestANewCAIsPublishedBeforeItSigns(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, nil)
	certs.Published(certs.Bundle())
	old := certs.Bundle().PEM()
	clk.Step(DefaultCALifetime/2 - time.Second)
	require.NoError(t, believes(t, certs, old, "127.0.0.1", clk.Now()))
	require.Len(t, certs.Bundle().Needed, 1)
	clk.Step(time.Second)
	leaf := shown(t, certs)
	requireChanged(t, certs)
	both := certs.Bundle()
	require.Len(t, both.Needed, 2, "a new CA is to be published beside the old one")
	require.NoError(t, believes(t, certs, old, "127.0.0.1", clk.Now()))
	clk.Step(24 * time.Hour)
	require.NoError(t, believes(t, certs, old, "127.0.0.1", clk.Now()), "nothing of the new CA is shown while it is not published")

	certs.Published(both)
	clk.Step(longestSettle - time.Second)
	require.NoError(t, believes(t, certs, old, "127.0.0.1", clk.Now()), "API servers get a moment to see it")
	clk.Step(time.Second)
	require.False(t, leaf.Equal(shown(t, certs)))
	require.Error(t, believes(t, certs, old, "127.0.0.1", clk.Now()))
	require.NoError(t, believes(t, certs, both.PEM(), "127.0.0.1", clk.Now()))
	clk.Step(longestGrace - time.Second)
	shown(t, certs)
	require.Len(t, certs.Bundle().Needed, 2, "the old CA stays for a while")
	requireChanged(t, certs)
	clk.Step(time.Second)
	shown(t, certs)
	requireChanged(t, certs)
	after := certs.Bundle()
	require.Len(t, after.Needed, 1)
	require.Len(t, after.Retired, 1)
	require.Equal(t, after.PEM(), after.Merge(both.PEM(), clk.Now()))
	require.NoError(t, believes(t, certs, after.PEM(), "127.0.0.1", clk.Now()))
	certs.Published(after)
	require.Empty(t, certs.Bundle().Retired)
}

func requireChanged(t *testing.T, c Certificates) {
	t.Helper()
	select {
	case <-c.Changed():
	default:
		require.Fail(t, "the registrar is not told")
	}
}

// TestABundleFromBeforeDoesNotCountAsPublished: the registrar was still writing it when the CA changed.
func TestABundleFromBeforeDoesNotCountAsPublished(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, nil)
	before := certs.Bundle()
	clk.Step(DefaultCALifetime / 2)
	shown(t, certs)
	certs.Published(before)
	clk.Step(time.Hour)
	require.NoError(t, believes(t, certs, before.PEM(), "127.0.0.1", clk.Now()))
}

func TestWithoutARegistrationANewCAIsUsedAtOnce(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, func(o *OwnOptions) { o.Unpublished = true })
	old := certs.Bundle().PEM()
	clk.Step(DefaultCALifetime / 2)
	require.Error(t, believes(t, certs, old, "127.0.0.1", clk.Now()))
	require.NoError(t, believes(t, certs, certs.Bundle().PEM(), "127.0.0.1", clk.Now()))
}

// TestNothingOutlivesACA, and a CA that could not be published in all its life is followed all the same.
func TestNothingOutlivesACA(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, func(o *OwnOptions) { o.CALifetime, o.Lifetime = time.Hour, 24*time.Hour })
	for range 600 {
		leaf := shown(t, certs)
		require.False(t, leaf.NotAfter.After(certs.serving.cas[0].NotAfter))
		require.False(t, clk.Now().After(leaf.NotAfter), "what is shown has not expired at %s", clk.Now())
		clk.Step(17 * time.Second)
	}
}

// TestReplicasRotateWithoutOneUntrustedMoment runs three with a registrar each against one API server, for years. Whatever is in
// the registration, it is trusted that each of them shows.
func TestReplicasRotateWithoutOneUntrustedMoment(t *testing.T) {
	api := fake.NewClientBuilder().Build()
	clk := testclock.NewFakeClock(newYear)
	type replica struct {
		*Registrar
		certs *SelfSigned
	}
	var replicas []replica
	start := func() {
		certs := own(t, clk, func(o *OwnOptions) { o.CALifetime, o.Lifetime = 365*24*time.Hour, 90*24*time.Hour })
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
			cas.Store(string(r.certs.serving.cas[0].Raw), true)
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
	now, err := parseCAs(bundle())
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
	run := func(certs Certificates) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &Registrar{Client: api, Clock: clk, Log: logr.Discard(), Certificates: certs, Started: func() error { return nil },
			Registration: Registration{URL: "https://127.0.0.1:1", TimeoutSeconds: 5, FailurePolicy: "Ignore"}}
		done := make(chan error)
		go func() { done <- r.Start(ctx) }()
		require.Eventually(t, func() bool { return r.since.Load() != nil }, 5*time.Second, time.Millisecond)
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

	s := newSecret(t)
	s.issue(t, someCA(t, clk.Now()), clk.Now())
	files, err := NewFiles(s.options(clk))
	require.NoError(t, err)
	clk.Step(longestGrace)
	stop := run(files)
	stop()
	require.Equal(t, string(files.Bundle().PEM()), bundle())

	stop = run(own(t, clk, nil))
	require.NoError(t, api.DeleteAllOf(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{}))
	stop()
	require.Contains(t, bundle(), "not found", "what somebody deleted is not made again by a stop")
}

// TestAReplicaThatRestartsDropsItsCAFromBefore: one that was killed again and again pushed the CAs of healthy replicas out of the bundle.
func TestAReplicaThatRestartsDropsItsCAFromBefore(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	of := func(replica string) *SelfSigned {
		return own(t, clk, func(o *OwnOptions) { o.Replica = replica })
	}
	healthy := of("a:8000")
	bundle := healthy.Bundle().Merge(nil, clk.Now())
	for range 2 * mostCAs {
		clk.Step(time.Minute)
		killed := of("b:8000")
		bundle = killed.Bundle().Merge(bundle, clk.Now())
		cas, err := parseCAs(bundle)
		require.NoError(t, err)
		require.Len(t, cas, 2)
		require.NoError(t, believes(t, healthy, bundle, "127.0.0.1", clk.Now()))
		require.NoError(t, believes(t, killed, bundle, "127.0.0.1", clk.Now()))
	}
	require.Equal(t, string(bundle), string(healthy.Bundle().Merge(bundle, clk.Now())), "others' CAs are theirs to drop")
}

// TestABundleIsMerged as the situation demands.
func TestABundleIsMerged(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	var made []*x509.Certificate // each an hour younger than the one before
	for range 30 {
		made = append(made, own(t, clk, nil).Bundle().Needed...)
		clk.Step(time.Hour)
	}
	expired, foreign := made[0], *made[1]
	foreign.Subject.CommonName = "vpa_webhook_ca"
	ours := func(c *x509.Certificate) bool { return c.Subject.CommonName == caName && !c.Equal(&foreign) }
	list := func(cas ...*x509.Certificate) []*x509.Certificate { return cas }
	for name, tt := range map[string]struct {
		bundle    Bundle
		old, want []*x509.Certificate
		now       time.Time
	}{
		"nothing is there":                     {bundle: Bundle{Needed: list(made[5]), Keeps: ours}, want: list(made[5])},
		"replicas are there":                   {bundle: Bundle{Needed: list(made[5]), Keeps: ours}, old: list(made[4], made[9]), want: list(made[9], made[5], made[4])},
		"all is there, in another order":       {bundle: Bundle{Needed: list(made[5]), Keeps: ours}, old: list(made[4], made[5]), want: list(made[4], made[5])},
		"another program's CA is there":        {bundle: Bundle{Needed: list(made[5]), Keeps: ours}, old: list(&foreign, made[5]), want: list(made[5])},
		"what is retired goes":                 {bundle: Bundle{Needed: list(made[5]), Retired: list(made[4]), Keeps: ours}, old: list(made[3], made[4], made[5]), want: list(made[5], made[3])},
		"what has expired goes":                {bundle: Bundle{Needed: list(made[5]), Keeps: ours}, old: list(expired, made[5]), want: list(made[5]), now: expired.NotAfter},
		"what has expired and is needed stays": {bundle: Bundle{Needed: list(expired), Keeps: ours}, old: list(expired), want: list(expired), now: expired.NotAfter.Add(time.Hour)},
		"exactly what is needed":               {bundle: Bundle{Needed: list(made[5])}, old: list(made[4], made[5]), want: list(made[5])},
		"too many: the newest stay, and what is needed": {bundle: Bundle{Needed: list(made[2]), Keeps: ours}, old: made[3:],
			want: append(reversed(made[11:]), made[2])},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.now.IsZero() {
				tt.now = clk.Now()
			}
			got := tt.bundle.Merge(inOrder(tt.old), tt.now)
			require.Equal(t, string(inOrder(tt.want)), string(got))
			require.Equal(t, string(got), string(tt.bundle.Merge(got, tt.now)), "what was merged needs no more merging")
		})
	}
	mixed := append([]byte("garbage\n-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"), inOrder(made[5:6])...)
	require.Equal(t, string(inOrder(made[5:6])), string(Bundle{Needed: made[5:6], Keeps: ours}.Merge(mixed, clk.Now())))
}

func reversed(cas []*x509.Certificate) (out []*x509.Certificate) {
	for i := range cas {
		out = append(out, cas[len(cas)-1-i])
	}
	return out
}

// inOrder writes CAs in the order in which they are given.
func inOrder(cas []*x509.Certificate) (out []byte) {
	for _, c := range cas {
		out = append(out, encodeCAs([]*x509.Certificate{c})...)
	}
	return out
}

func TestTLSFlagsSayWhatIsSpoken(t *testing.T) {
	const gcm, cbc = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"
	for name, tt := range map[string]struct {
		version, ciphers string
		min              uint16
		suites           []uint16
		http2            bool
		told             int
	}{
		"nothing":                      {min: tls.VersionTLS12, http2: true},
		"1.2":                          {version: "tls1_2", min: tls.VersionTLS12, http2: true},
		"1.3":                          {version: "tls1_3", min: tls.VersionTLS13, http2: true},
		"commas":                       {ciphers: gcm + "," + cbc, min: tls.VersionTLS12, suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}, http2: true},
		"colons and blanks":            {ciphers: " " + cbc + " : " + gcm, min: tls.VersionTLS12, suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, http2: true},
		"an unknown one":               {ciphers: "ROT13," + gcm, min: tls.VersionTLS12, suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, http2: true, told: 1},
		"an insecure one":              {ciphers: "TLS_RSA_WITH_RC4_128_SHA", min: tls.VersionTLS12, http2: true, told: 1},
		"none that HTTP/2 could use":   {ciphers: cbc, min: tls.VersionTLS12, suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}, told: 1},
		"TLS 1.3 does not mind either": {version: "tls1_3", ciphers: cbc, min: tls.VersionTLS13, suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}, http2: true},
	} {
		t.Run(name, func(t *testing.T) {
			log := newMemo()
			config, err := TLSConfig(tt.version, tt.ciphers, log.log())
			require.NoError(t, err)
			require.Equal(t, tt.min, config.MinVersion)
			require.Equal(t, tt.suites, config.CipherSuites)
			require.Equal(t, tt.http2, config.NextProtos[0] == "h2")
			require.Len(t, log.told(), tt.told)
		})
	}
	_, err := TLSConfig("tls1_1", "", logr.Discard())
	require.EqualError(t, err, `--min-tls-version is "tls1_1"; use tls1_2 or tls1_3`)
}
