package integration

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
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

// limited sets a CPU quota for a namespace, and returns a function that lifts it.
func limited(t *testing.T, ns, cpu string) (lift func()) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tight"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.cpu": resource.MustParse(cpu)}}}
	create(t, quota)
	hang.Eventually(t, "the quota to be counted", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, keyOf(quota), quota)
		return len(quota.Status.Used) > 0, err
	})
	return func() { require.NoError(t, cluster.Delete(t.Context(), quota)) }
}

// impatient makes the updater retry one second after a refusal in a namespace, by an overlay.
func impatient(t *testing.T, ns string) {
	t.Helper()
	overlay := &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: rulesv1alpha1.RuleOverlaySpec{
		Mode:   "Enforce",
		Match:  &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{ns}},
		Change: []rulesv1alpha1.Change{{Params: map[string]apiextensionsv1.JSON{"refusalBackOff": {Raw: []byte(`"1s"`)}}}},
	}}
	create(t, overlay)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.WithoutCancel(t.Context()), overlay)) })
}

// aQuotaRefusesAResize that would refuse the new pod as well.
func aQuotaRefusesAResize(t *testing.T) {
	ns := namespace(t, "up-quota")
	before := deployed(t, ns, "web", 2, small)
	lift := limited(t, ns, "250m")
	impatient(t, ns)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	hang.Eventually(t, "two tries", func(context.Context) (bool, error) { return u.requests.of("resize", "web") >= 2, nil })
	u.decided("web", "resize/over-quota")
	requireEvent(t, ns, "ResizeRefused", "exceeded quota: tight")
	u.cycles(1)
	same(t, ns, "web", before)
	require.Zero(t, u.requests.of("eviction", "web"))
	require.Positive(t, u.counted("vpa_updater_failed_in_place_update_attempts_total", `reason="InPlaceUpdateError"`))
	lift()
	become(t, ns, "web", 2, "200m/- 200Mi/-")
	same(t, ns, "web", before)
}

// aNodeWithoutTheFeature refuses resizes of pods with pod-level resources.
func aNodeWithoutTheFeature(t *testing.T) {
	ns := namespace(t, "up-feature")
	bare := bareNode(t, "up-feature")
	spec := "nodeName: " + bare + "\n" + ofItsOwn
	t.Cleanup(func() { // before the node: who makes pods for one that is gone never comes to an end
		require.NoError(t, cluster.DeleteAllOf(context.WithoutCancel(t.Context()), &appsv1.Deployment{}, client.InNamespace(ns)))
	})
	waits, evicts := deployed(t, ns, "waits", 1, spec), deployed(t, ns, "evicts", 1, spec)
	watchedOver(t, ns, "waits", one("InPlace"), moreForBoth)
	watchedOver(t, ns, "evicts", one("InPlaceOrRecreate"), moreForBoth)
	u := startUpdater(t, ns)
	leave(t, ns, "evicts", evicts)
	requireEvent(t, ns, "EvictedByVPA", "update/resize-refused")
	for _, p := range up(t, ns, "evicts", 1) {
		has(t, &p, hasMore...)
	}
	hang.Eventually(t, "the refusal", func(context.Context) (bool, error) { return u.Says("resize/resize-refused-never-evict"), nil })
	u.cycles(2)
	for _, p := range same(t, ns, "waits", waits) {
		has(t, &p, hasOfItsOwn...)
	}
	require.Zero(t, u.requests.of("eviction", "waits"))
}

// bareNode is a node for pods that name it, whose kubelet lacks pod-level resources.
func bareNode(t *testing.T, name string) string {
	t.Helper()
	node := nodeNamed(name)
	node.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
	create(t, node)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.WithoutCancel(t.Context()), node)) })
	return name
}

// aResizeThatIsNotAnswered, or is answered too late, is no reason to evict: the next one may
// succeed. It may have been carried out, so the updater waits until the cache shows it or should
// have.
func aResizeThatIsNotAnswered(t *testing.T) {
	ns := namespace(t, "up-answer")
	answers := []int{http.StatusConflict, http.StatusGatewayTimeout, http.StatusServiceUnavailable, http.StatusInternalServerError}
	before := map[string]map[types.UID]corev1.Pod{}
	for i := range answers {
		app := fmt.Sprintf("web%d", i)
		before[app] = deployed(t, ns, app, 1, small)
	}
	u := startUpdater(t, ns)
	ends := u.refuseAll("web", answers)
	for app := range before {
		watchedOver(t, ns, app, one("InPlaceOrRecreate"), target("200m", "200Mi"))
	}
	ends()
	hang.Eventually(t, "that they are waited for", func(context.Context) (bool, error) { return u.Says("resize/resize-not-answered"), nil })
	for app := range before {
		become(t, ns, app, 1, "200m/- 200Mi/-")
		same(t, ns, app, before[app])
	}
	require.Greater(t, u.requests.longest("resize"), 40*time.Second, "those that nobody answered were waited for, and then tried again")
	require.Zero(t, u.requests.of("eviction", ""))
}
