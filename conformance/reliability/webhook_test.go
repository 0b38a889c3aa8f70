package reliability

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

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

// TestAWebhookThatHangs for longer than API servers wait, in the midst of a rollout.
func TestAWebhookThatHangs(t *testing.T) {
	s := newStage(t, "rel-webhook-hangs", nil)
	p := admissionWith(t, "--webhook-timeout-seconds=5")
	s.recommender, s.updater = s.start("recommender"), s.start("updater", leaseTimeout)
	s.haveRecommendations("web", "inplace", "off", "fitting")
	s.begin()
	s.rollsOut()
	require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGSTOP))
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
