package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

// pemFiles are a certificate and its key, valid until a time.
func pemFiles(t *testing.T, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-time.Hour), NotAfter: until, DNSNames: []string{"metrics"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
	return cert, key
}

func TestFilesOfSecureMetricsAreCheckedAtTheStart(t *testing.T) {
	cert, key := pemFiles(t, time.Now().Add(time.Minute))
	past := time.Now().Add(-time.Minute)
	expired, itsKey := pemFiles(t, past)
	for name, tt := range map[string]struct {
		flags secureMetrics
		says  string // empty = fine
	}{
		"off":                {},
		"self-signed":        {flags: secureMetrics{address: ":1"}},
		"from files":         {flags: secureMetrics{address: ":1", cert: cert, key: key}},
		"files without it":   {flags: secureMetrics{cert: cert, key: key}, says: "need --secure-metrics-address"},
		"one of two files":   {flags: secureMetrics{address: ":1", cert: cert}, says: "belong together: give both or none"},
		"a file of no one":   {flags: secureMetrics{address: ":1", cert: cert, key: "/none"}, says: "--secure-metrics-cert-file and --secure-metrics-key-file: open /none: no such file"},
		"keys that differ":   {flags: secureMetrics{address: ":1", cert: cert, key: itsKey}, says: "private key does not match public key"},
		"an old certificate": {flags: secureMetrics{address: ":1", cert: expired, key: itsKey}, says: "the certificate in " + expired + " expired at " + past.UTC().Format(time.RFC3339) + "; replace it"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.flags.check()
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestWhatEachAddressServes(t *testing.T) {
	p := &process{health: newHealth(testclock.NewFakeClock(time.Now()))}
	names := func(paths map[string]http.Handler) []string { return slices.Sorted(maps.Keys(paths)) }
	profiles := []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/profile", "/debug/pprof/symbol", "/debug/pprof/trace"}
	health := []string{"/health-check", "/healthz", "/readyz"}

	open, guarded := p.paths(&options{address: ":1"})
	require.Equal(t, []string{"/health-check", "/healthz", "/metrics", "/readyz"}, names(open))
	require.Empty(t, guarded)
	open, guarded = p.paths(&options{address: ":1", profiling: true})
	require.Equal(t, slices.Concat(profiles, []string{"/health-check", "/healthz", "/metrics", "/readyz"}), names(open))
	require.Empty(t, guarded)
	open, guarded = p.paths(&options{address: ":1", profiling: true, secureMetrics: secureMetrics{address: ":2"}})
	require.Equal(t, health, names(open))
	require.Equal(t, append(profiles, "/metrics"), names(guarded), "profiles have secrets, too")
}

func TestTheCertificateOfSecureMetricsIsOwnOrFromFiles(t *testing.T) {
	cert, key := pemFiles(t, time.Now().Add(time.Minute))
	names := func(s secureMetrics) []string {
		_, get, err := s.certificate(logr.Discard())
		require.NoError(t, err)
		pair, err := get(&tls.ClientHelloInfo{})
		require.NoError(t, err)
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		require.NoError(t, err)
		return leaf.DNSNames
	}
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, []string{host, "localhost"}, names(secureMetrics{address: ":1"}))
	require.Equal(t, []string{"metrics"}, names(secureMetrics{address: ":1", cert: cert, key: key}))
}
