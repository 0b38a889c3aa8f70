package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
)

// The first half of AEP-8818's test plan: what mode InPlace does, and that it never evicts.

// earlier creates a workload and its VPA of mode InPlace before the webhook is registered.
type earlier struct {
	ns   string
	pods map[types.UID]corev1.Pod
}

func newEarlier(t *testing.T) earlier {
	t.Helper()
	ns := namespace(t, "up-gate")
	before := deployed(t, ns, "web", 2, small)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: InPlace}", target("200m", "200Mi"))
	return earlier{ns: ns, pods: before}
}

// inPlaceIsOff: a new VPA may not have the mode. An existing one changes new pods and leaves
// running pods alone.
func (e earlier) inPlaceIsOff(t *testing.T) {
	err := cluster.Create(t.Context(), object(e.ns, "another", "updatePolicy: {updateMode: InPlace}"))
	require.ErrorContains(t, err, "--feature-gates=InPlace=true, or use InPlaceOrRecreate (rule vpa-gates/in-place)")

	u := startUpdater(t, e.ns, "--feature-gates=InPlace=false")
	u.cycles(3)
	for _, p := range same(t, e.ns, "web", e.pods) {
		has(t, &p, "100m/- 100Mi/-")
	}
	require.Zero(t, u.requests.of("resize", "web")+u.requests.of("eviction", "web"))

	scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
	require.NoError(t, cluster.Patch(t.Context(), deployment(t, e.ns, "web", 2, small), scale))
	for uid, p := range up(t, e.ns, "web", 3) {
		if _, old := e.pods[uid]; !old {
			has(t, &p, "200m/- 200Mi/-")
		}
	}
}

func basicInPlaceUpdate(t *testing.T) {
	ns := namespace(t, "up-basic")
	before := deployed(t, ns, "web", 2, small)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: InPlace}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	become(t, ns, "web", 2, "200m/- 200Mi/-")
	requireEvent(t, ns, "InPlaceResizedByVPA", "update/resize")
	u.cycles(2)
	for _, p := range same(t, ns, "web", before) {
		hang.Eventually(t, "the mark of the resize", func(ctx context.Context) (bool, error) { // tried again where it came too late for its cycle
			err := cluster.Get(ctx, keyOf(&p), &p)
			return p.Annotations["vpaInPlaceUpdated"] == "true", err
		})
		require.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	}
	require.Equal(t, 2, u.requests.of("resize", "web"), "one for each pod")
	require.Zero(t, u.requests.of("eviction", "web"))
	u.hasCounted(2, "vpa_updater_in_place_updated_pods_total", `vpa_name="web"`)
}

// noEvictionOnFailure: no node has 40 cores.
func noEvictionOnFailure(t *testing.T) {
	ns := namespace(t, "up-failure")
	before := deployed(t, ns, "web", 2, small)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: InPlace}", target("40", "200Mi"))
	u := startUpdater(t, ns)
	hang.Eventually(t, "both pods tried", func(context.Context) (bool, error) { return u.requests.of("resize", "web") >= 2, nil })
	u.cycles(3)
	for _, p := range same(t, ns, "web", before) {
		has(t, &p, "100m/- 100Mi/-")
	}
	require.Zero(t, u.requests.of("eviction", "web"))
}

// indefiniteWaitForInProgressUpdates: InPlaceOrRecreate would have evicted the pod long ago.
// InPlace waits, and sends no resize over the one in progress.
func indefiniteWaitForInProgressUpdates(t *testing.T) {
	ns := namespace(t, "up-progress")
	for _, state := range []struct {
		app, reason string
		condition   corev1.PodConditionType
		rule        string // by which the other mode evicts
		since       time.Duration
	}{
		{"progress", "", corev1.PodResizeInProgress, "update/in-progress-too-long", 300 * time.Hour},
		{"deferred", corev1.PodReasonDeferred, corev1.PodResizePending, "update/deferred-too-long", 300 * time.Hour},
		{"error", corev1.PodReasonError, corev1.PodResizeInProgress, "update/resize-failed", 50 * time.Minute}, // after an hour another resize may take its place
	} {
		t.Run(state.app, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, ns+"-"+state.app)
			waits, evicts := deployed(t, ns, "waits", 1, small), deployed(t, ns, "evicts", 1, small)
			kubeletSays(t, waits, state.condition, state.reason, state.since)
			kubeletSays(t, evicts, state.condition, state.reason, state.since)
			watchedOver(t, ns, "waits", one("InPlace"), target("200m", "200Mi"))
			watchedOver(t, ns, "evicts", one("InPlaceOrRecreate"), target("200m", "200Mi"))
			u := startUpdater(t, ns)
			leave(t, ns, "evicts", evicts)
			requireEvent(t, ns, "EvictedByVPA", state.rule)
			recommendNow(t, ns, "waits", target("150m", "150Mi"))
			u.cycles(3)
			for _, p := range same(t, ns, "waits", waits) {
				has(t, &p, "100m/- 100Mi/-")
			}
			require.Zero(t, u.requests.of("resize", "waits")+u.requests.of("eviction", "waits"))
			require.Zero(t, u.requests.of("resize", "evicts"))
		})
	}
}

// failedUpdateRetrySuccess: the resize succeeds once the quota is gone.
func failedUpdateRetrySuccess(t *testing.T) {
	ns := namespace(t, "up-retry")
	before := deployed(t, ns, "web", 1, small)
	lift := limited(t, ns, "250m")
	impatient(t, ns)
	watchedOver(t, ns, "web", one("InPlace"), target("300m", "200Mi"))
	u := startUpdater(t, ns)
	hang.Eventually(t, "two tries", func(context.Context) (bool, error) { return u.requests.of("resize", "web") >= 2, nil })
	for _, p := range same(t, ns, "web", before) {
		has(t, &p, "100m/- 100Mi/-")
	}
	lift()
	become(t, ns, "web", 1, "300m/- 200Mi/-")
	same(t, ns, "web", before)
	require.Zero(t, u.requests.of("eviction", "web"))
}

// infeasibleResizeHandling: the API server accepts the resize, and the kubelet finds it infeasible.
func infeasibleResizeHandling(t *testing.T) {
	ns := namespace(t, "up-handling")
	waits, evicts := deployed(t, ns, "waits", 1, small), deployed(t, ns, "evicts", 1, small)
	kubeletSays(t, waits, corev1.PodResizePending, corev1.PodReasonInfeasible, time.Hour)
	kubeletSays(t, evicts, corev1.PodResizePending, corev1.PodReasonInfeasible, 0)
	watchedOver(t, ns, "waits", one("InPlace"), target("200m", "200Mi"))
	watchedOver(t, ns, "evicts", one("InPlaceOrRecreate"), target("200m", "200Mi"))
	u := startUpdater(t, ns)
	leave(t, ns, "evicts", evicts)
	requireEvent(t, ns, "EvictedByVPA", "update/infeasible-resize")
	u.cycles(3)
	same(t, ns, "waits", waits)
	require.Zero(t, u.requests.of("eviction", "waits"))
}

// aMemoryLimitBelowUsage is refused by the kubelet for as long as the container uses more. Nothing
// replaces that resize until more is recommended. Nodes ignore pods in phase Unknown, so this one
// carries nothing out meanwhile.
func aMemoryLimitBelowUsage(t *testing.T) {
	ns := namespace(t, "up-wedge")
	before := deployed(t, ns, "web", 1, "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 200m, memory: 400Mi}}}]")
	inPhase(t, before, corev1.PodUnknown)
	watchedOver(t, ns, "web", one("InPlace"), target("100m", "50Mi"))
	u := startUpdater(t, ns)
	sent := func(times int) {
		t.Helper()
		hang.Eventually(t, "a resize", func(context.Context) (bool, error) { return u.requests.of("resize", "web") == times, nil })
	}
	sent(1)
	kubeletSaysWhy(t, before, corev1.PodResizeInProgress, corev1.PodReasonError,
		`cannot decrease memory limits: attempting to set container "a" memory limit (104857600) below current usage (150000000)`, time.Minute)
	u.decided("web", "resize/resize-under-way")
	recommendNow(t, ns, "web", target("100m", "40Mi"))
	u.cycles(3)
	require.Equal(t, 1, u.requests.of("resize", "web"), "less is no help")

	u.stop()
	u = startUpdater(t, ns) // what was asked for is in the pod
	u.cycles(2)
	require.Zero(t, u.requests.of("resize", "web"))
	recommendNow(t, ns, "web", target("150m", "90Mi"))
	sent(1)
	requireEvent(t, ns, "InPlaceResizedByVPA", "update/resize-replaced")
	inPhase(t, before, corev1.PodRunning)
	become(t, ns, "web", 1, "150m/300m 90Mi/180Mi")
	u.cycles(2)
	same(t, ns, "web", before)
	require.Equal(t, 1, u.requests.of("resize", "web"))
	require.Zero(t, u.requests.of("eviction", "web"))
}
