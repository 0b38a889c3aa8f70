package reliability

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/webhook/certificates"
)

// issuer writes the files of a webhook's certificate.
type issuer struct {
	t   *testing.T
	dir string
}

func (i issuer) file(name string) string { return filepath.Join(i.dir, name) }

// issue writes a new CA and a certificate whose times are those of a clock that is ahead, or behind.
func (i issuer) issue(ahead, caLife, life time.Duration) {
	i.t.Helper()
	certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, CALifetime: caLife, Lifetime: life,
		Clock: testclock.NewFakeClock(time.Now().Add(ahead)), Log: logr.Discard()})
	require.NoError(i.t, err)
	pair, err := certs.GetCertificate(nil)
	require.NoError(i.t, err)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(i.t, err)
	for name, text := range map[string][]byte{
		"ca.crt":  certs.Bundle().PEM(),
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		require.NoError(i.t, os.WriteFile(i.file(name), text, 0o600))
	}
}

// admissionWith replaces the shared admission controller until the test ends.
func admissionWith(t *testing.T, flags ...string) *program {
	t.Helper()
	require.NoError(t, admission.Stop())
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(t, err)
	p := &program{}
	args = append(append([]string{"admission-controller", "--kubeconfig=" + lab.Kubeconfig, "--webhook-probe-interval=1s", "--status-lease-update-interval=1s"}, args...), flags...)
	p.Celvpa, err = harness.Start(celvpa, address, logOf(t, t.Name()), args, p.Add)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Stop())
		require.NoError(t, startAdmission(context.Background()))
	})
	require.NoError(t, p.WaitReady(t.Context()))
	return p
}

func reachable(p *program) bool { return harness.Metric(p.Address, "celvpa_webhook_reachable") == 1 }

// TestFilesWithACertificateThatHasExpired: new pods start as they are written, the log and the metrics show it, and
// once there is a new certificate all goes on.
func TestFilesWithACertificateThatHasExpired(t *testing.T) {
	s := newStage(t, "rel-certificates", nil)
	s.recommender = s.start("recommender")
	s.haveRecommendations("web", "inplace", "off", "fitting")
	s.patch("web", map[string]any{"updatePolicy": map[string]any{"updateMode": "Initial"}})
	s.patched("web")
	files := issuer{t, t.TempDir()}
	fromFiles := []string{"--client-ca-file=" + files.file("ca.crt"), "--tls-cert-file=" + files.file("tls.crt"), "--tls-private-key=" + files.file("tls.key"), "--reload-cert"}
	const lasting = 24 * time.Hour

	files.issue(-2*time.Hour, lasting, time.Hour)
	p := admissionWith(t, fromFiles...)
	require.True(t, p.Says("the serving certificate or its CA has expired", files.file("tls.crt")))
	hang.Eventually(t, "a probe that does not reach the webhook", func(context.Context) (bool, error) {
		return p.Says("the API server does not reach this webhook") && !reachable(p), nil
	})
	require.Less(t, harness.Metric(p.Address, "celvpa_admission_certificate_expiration_timestamp_seconds"), float64(time.Now().Unix()))
	s.unpatched("web")
	files.issue(0, lasting, lasting)
	s.patched("web")
	hang.Eventually(t, "a probe that reaches the webhook", func(context.Context) (bool, error) {
		return reachable(p), nil
	})
	require.Greater(t, harness.Metric(p.Address, "celvpa_admission_certificate_expiration_timestamp_seconds"), float64(time.Now().Unix()))
	require.Empty(t, s.lostSoFar())
}

// TestCertificatesThatExpireWhileTheProcessStandsStill: those of its own, and their CA.
func TestCertificatesThatExpireWhileTheProcessStandsStill(t *testing.T) {
	s := newStage(t, "rel-asleep", nil)
	s.recommender = s.start("recommender")
	s.haveRecommendations("web", "inplace", "off", "fitting")
	s.patch("web", map[string]any{"updatePolicy": map[string]any{"updateMode": "Initial"}})
	s.patched("web")
	p := admissionWith(t, "--webhook-certificate-lifetime=3s", "--webhook-ca-lifetime=9s")
	s.patched("web")
	require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGSTOP))
	goesOn(t, 10*time.Second)
	require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGCONT))
	s.patched("web")
	healthy(t, p, "awake")
	require.Empty(t, s.lostSoFar())
}

// lostSoFar is what the witness saw to be lost.
func (s *scene) lostSoFar() []string {
	s.witness.mu.Lock()
	defer s.witness.mu.Unlock()
	return s.lost
}

// patched waits until new pods get their recommendations.
func (s *scene) patched(app string) {
	s.t.Helper()
	hang.Eventually(s.t, "a new pod with its recommendation", func(context.Context) (bool, error) {
		requests, _ := s.created(app)
		return requests == recommended, nil
	})
}
