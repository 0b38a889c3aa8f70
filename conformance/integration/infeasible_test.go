package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/conformance/hang"
)

// The second half of AEP-8818's test plan: infeasible resizes are not sent again. No node of the
// lab has 40 cores, so the API server refuses such a resize with cause NodeCapacity.

const (
	infeasibleAttempts = "vpa_updater_failed_in_place_update_attempts_total"
	infeasibleSkips    = "vpa_updater_in_place_infeasible_skip_pods_total"
	asInfeasible       = `reason="InPlaceUpdateInfeasible"`
)

// tooBig starts a pod with a recommendation of 40 cores, and waits until its resize has been
// refused.
func tooBig(t *testing.T, ns string) *anUpdater {
	t.Helper()
	before := deployed(t, ns, "web", 1, small)
	watchedOver(t, ns, "web", one("InPlace"), target("40", "200Mi"))
	u := startUpdater(t, ns)
	u.refusedAsInfeasible(1)
	t.Cleanup(func() {
		if !t.Failed() {
			require.Zero(t, u.requests.of("eviction", "web"))
		}
	})
	same(t, ns, "web", before)
	return u
}

// refusedAsInfeasible waits for a number of resizes that were refused because of the node's size.
func (u *anUpdater) refusedAsInfeasible(times int) {
	u.t.Helper()
	hang.Eventually(u.t, "the API server's refusal", func(context.Context) (bool, error) {
		return u.counted(infeasibleAttempts, asInfeasible) == times, nil
	})
	require.Equal(u.t, times, u.requests.of("resize", "web"))
}

// skips waits until the pod was skipped a number of times more, and requires that nothing was sent.
func (u *anUpdater) skips(more int) {
	u.t.Helper()
	sent, until := u.requests.of("resize", "web"), u.counted(infeasibleSkips, `vpa_name="web"`)+more
	hang.Eventually(u.t, "the pod to be left out", func(context.Context) (bool, error) {
		return u.counted(infeasibleSkips, `vpa_name="web"`) >= until, nil
	})
	require.Equal(u.t, sent, u.requests.of("resize", "web"))
}

// infeasibleStatusStorage: the API server accepts the resize and the kubelet finds it infeasible.
// The updater remembers the requests of the pod's spec.
func infeasibleStatusStorage(t *testing.T) {
	ns := namespace(t, "up-status")
	before := deployed(t, ns, "web", 1, small)
	watchedOver(t, ns, "web", one("InPlace"), target("200m", "200Mi"))
	u := startUpdater(t, ns)
	now := become(t, ns, "web", 1, "200m/- 200Mi/-")
	kubeletSays(t, now, corev1.PodResizePending, corev1.PodReasonInfeasible, 0)
	u.cycles(2)
	require.Equal(t, 1, u.requests.of("resize", "web"))

	recommendNow(t, ns, "web", target("300m", "200Mi"))
	u.skips(2)
	recommendNow(t, ns, "web", target("300m", "100Mi"))
	become(t, ns, "web", 1, "300m/- 100Mi/-")
	same(t, ns, "web", before)
	require.Equal(t, 2, u.requests.of("resize", "web"))
	require.Zero(t, u.requests.of("eviction", "web"))
}

// infeasiblePatchRejection: the updater remembers what it sent, and skips the pod until less is
// recommended.
func infeasiblePatchRejection(t *testing.T) {
	ns := namespace(t, "up-rejection")
	u := tooBig(t, ns)
	requireEvent(t, ns, "InPlaceResizeSkipped", "resize/known-infeasible")
	u.skips(1)
	recommendNow(t, ns, "web", target("39", "200Mi"))
	u.refusedAsInfeasible(2)
	u.skips(1)
	require.Zero(t, u.counted(infeasibleAttempts, `reason="InPlaceUpdateError"`))
}

func noRetryForUnchangedRecommendation(t *testing.T) {
	ns := namespace(t, "up-unchanged")
	u := tooBig(t, ns)
	u.skips(2)
	u.cycles(2)
	require.Equal(t, 1, u.requests.of("resize", "web"))
	require.Equal(t, 1, u.counted(infeasibleAttempts))
	require.Zero(t, u.counted("vpa_updater_in_place_updated_pods_total"))
}

// retryAfterRecommendationChange: no retry when all or some values rise; a retry when one drops.
func retryAfterRecommendationChange(t *testing.T) {
	ns := namespace(t, "up-change")
	u := tooBig(t, ns)
	recommendNow(t, ns, "web", target("50", "300Mi"))
	u.skips(2)
	recommendNow(t, ns, "web", target("40", "300Mi"))
	u.skips(2)
	recommendNow(t, ns, "web", target("300m", "300Mi"))
	become(t, ns, "web", 1, "300m/- 300Mi/-")
	require.Equal(t, 2, u.requests.of("resize", "web"))
}

// successfulUpdateClearsStoredAttempt: after a successful resize, values that were refused earlier
// may be tried again.
func successfulUpdateClearsStoredAttempt(t *testing.T) {
	ns := namespace(t, "up-clears")
	u := tooBig(t, ns)
	recommendNow(t, ns, "web", target("300m", "300Mi"))
	become(t, ns, "web", 1, "300m/- 300Mi/-")
	require.Equal(t, 2, u.requests.of("resize", "web"))
	recommendNow(t, ns, "web", target("40", "300Mi"))
	hang.Eventually(t, "another try", func(context.Context) (bool, error) { return u.requests.of("resize", "web") == 3, nil })
	u.skips(2)
}

// oneRetryAfterARestart: the memory is lost with the process.
func oneRetryAfterARestart(t *testing.T) {
	ns := namespace(t, "up-restart")
	first := tooBig(t, ns)
	require.NoError(t, first.Stop())
	second := startUpdater(t, ns)
	second.refusedAsInfeasible(1)
	second.skips(2)
	require.Equal(t, 1, first.requests.of("resize", "web"))
}
