package reliability

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	standStill(t, p.Pid())
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

// These tests disturb the admission controller that all share, so nothing runs beside them.

// leaseTimeout is many times the interval at which the status lease is renewed.
const leaseTimeout = "--admission-controller-status-lease-timeout=12s"

// expires waits until the updater finds that the status lease has expired, of an admission controller that no longer renews it.
func (s *scene) expires() {
	s.t.Helper()
	const found = `vpa_updater_admission_controller_status_invalid_total{reason="invalid"}`
	until := harness.Metric(s.updater.Address, found) + 2
	hang.Eventually(s.t, "the end of the status lease", func(context.Context) (bool, error) {
		return harness.Metric(s.updater.Address, found) >= until, nil
	})
	require.True(s.t, s.updater.Says("evictions paused", "has not renewed lease"))
}

// created is what a new pod of a workload requests, and how long that took. The pod is not stored.
func (s *scene) created(app string) (requests string, took time.Duration) {
	s.t.Helper()
	begin := time.Now()
	pods, err := s.pods(s.t.Context(), app)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, pods)
	old := pods[0]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, GenerateName: "tried-", Labels: old.Labels, OwnerReferences: old.OwnerReferences},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: amounts(little)}}}}}
	require.NoError(s.t, cluster.Create(s.t.Context(), pod, client.DryRunAll), "pods are created in any case")
	return requestsOf(pod), time.Since(begin)
}

// unpatched requires that new pods start as they are written.
func (s *scene) unpatched(app string) (took time.Duration) {
	s.t.Helper()
	requests, took := s.created(app)
	require.Equal(s.t, said(amounts(little)), requests)
	return took
}

// paused waits until the updater evicts nobody for want of an admission controller, and nothing but that.
func (s *scene) paused() {
	s.t.Helper()
	evicted, _ := s.audited()
	s.moreCycles(s.updater, "updater", 3)
	require.True(s.t, s.updater.Says("evictions paused"))
	now, _ := s.audited()
	require.Equal(s.t, evicted, now, "nobody is evicted who would come back as he was")
}

// TestAWebhookThatIsDown: new pods start as they are written, pods are resized in place, and nobody is evicted until it is back.
func TestAWebhookThatIsDown(t *testing.T) {
	s := newStage(t, "rel-webhook-down", nil)
	s.recommender, s.updater = s.start("recommender"), s.start("updater", leaseTimeout)
	s.haveRecommendations("web", "inplace", "off", "fitting")
	admission.Kill()
	s.expires()
	s.begin()
	s.paused()
	require.Less(t, s.unpatched("web"), 30*time.Second, "API servers do not wait for --webhook-timeout-seconds where nobody listens")
	require.Positive(t, harness.Metric(s.updater.Address, `vpa_updater_admission_controller_status_invalid_total{reason="invalid"}`))
	require.NoError(t, startAdmission(t.Context()))
	s.ends()
	s.losesNothing()
}

// standStill stops a process, and waits until each of its threads has stopped: on a busy machine, some run on for a while.
func standStill(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	hang.Eventually(t, "all threads to stop", func(context.Context) (bool, error) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if _, state, _ := strings.Cut(string(text), ") "); err != nil || !strings.HasPrefix(state, "T") {
				return false, nil
			}
		}
		return len(threads) > 0, err
	})
}

// TestAWebhookThatHangs for longer than API servers wait, in the midst of a rollout.
func TestAWebhookThatHangs(t *testing.T) {
	s := newStage(t, "rel-webhook-hangs", nil)
	p := admissionWith(t, "--webhook-timeout-seconds=5")
	s.recommender, s.updater = s.start("recommender"), s.start("updater", leaseTimeout)
	s.haveRecommendations("web", "inplace", "off", "fitting")
	s.begin()
	s.rollsOut()
	standStill(t, p.Pid())
	awake := func() { require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGCONT)) }
	t.Cleanup(awake)
	require.Greater(t, s.unpatched("web"), 4*time.Second, "API servers wait for --webhook-timeout-seconds, and not until it is awake")
	s.expires()
	s.paused()
	awake()
	s.ends()
	s.withinBudget()
	evicted, _ := s.audited()
	for pod, times := range evicted { // those that came back as they were are evicted once more
		require.Equal(t, []any{"web", 1, said(amounts(little))}, []any{s.appOf(pod), times, s.firstSize(pod)}, pod)
	}
	t.Logf("%d evictions for %d pods", len(evicted), replicas["web"])
}
