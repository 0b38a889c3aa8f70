package integration

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
)

// What the updater guarantees in all circumstances.

// refusalsOfResizes are answers of API servers, and of proxies in front of them, to a resize.
var refusalsOfResizes = []int{
	http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict, http.StatusGone,
	http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// someModesNeverEvict, whatever the kubelet reports, the API server answers, or the recommendation
// is.
func someModesNeverEvict(t *testing.T) {
	ns := namespace(t, "up-never")
	const guaranteed = "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 100m, memory: 100Mi}}}]"
	const restarted = "containers: [{name: a, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}, {resourceName: memory, restartPolicy: RestartContainer}], resources: {requests: {cpu: 100m, memory: 100Mi}}}]"
	want := target("200m", "200Mi")
	all := map[string]struct {
		pod, spec, recommendation string
		says                      corev1.PodConditionType
		reason                    string
	}{
		"restarted":  {pod: restarted, recommendation: want},
		"infeasible": {pod: small, recommendation: want, says: corev1.PodResizePending, reason: corev1.PodReasonInfeasible},
		"deferred":   {pod: small, recommendation: want, says: corev1.PodResizePending, reason: corev1.PodReasonDeferred},
		"strange":    {pod: small, recommendation: want, says: corev1.PodResizePending, reason: "Moonphase"},
		"failing":    {pod: small, recommendation: want, says: corev1.PodResizeInProgress, reason: corev1.PodReasonError},
		"huge":       {pod: small, recommendation: target("40", "200Mi")},
		"changed":    {pod: guaranteed, spec: "{" + one("InPlace") + ", " + twice + "}", recommendation: want},
		"below":      {pod: small, spec: "updatePolicy: {updateMode: InPlace, minReplicas: 7}", recommendation: want},
		"off":        {pod: small, spec: one("Off"), recommendation: want},
		"initial":    {pod: small, spec: one("Initial"), recommendation: want},
	}
	resized := []string{"restarted"}
	for i := range refusalsOfResizes { // one for each: what is refused, or not answered, is not tried again at once
		app := fmt.Sprintf("plain%d", i)
		resized = append(resized, app)
		plain := all["off"]
		plain.spec = ""
		all[app] = plain
	}
	before := map[string]map[types.UID]corev1.Pod{}
	for app, c := range all {
		create(t, deployment(t, ns, app, 1, c.pod))
	}
	for app, c := range all {
		before[app] = up(t, ns, app, 1)
		since := 300 * time.Hour
		if app == "strange" || app == "failing" {
			since = 50 * time.Minute // after an hour something else may take its place
		}
		if c.says != "" {
			kubeletSays(t, before[app], c.says, c.reason, since)
		}
	}
	impatient(t, ns)
	u := startUpdater(t, ns)
	ends := u.refuseAll("plain", refusalsOfResizes)
	for app, c := range all {
		spec := c.spec
		if spec == "" {
			spec = one("InPlace")
		}
		watchedOver(t, ns, app, spec, c.recommendation)
	}
	ends()
	for _, app := range resized { // they are tried again
		become(t, ns, app, 1, "200m/- 200Mi/-")
	}
	u.cycles(1)
	for app := range all {
		same(t, ns, app, before[app])
	}
	require.Zero(t, u.requests.of("eviction", ""))
	for _, app := range []string{"deferred", "strange", "failing", "changed", "below", "off", "initial"} {
		require.Zero(t, u.requests.of("resize", app), app)
	}
}

// aSpentBudgetHoldsUpResizes in both modes that resize, unless resizes skip the budget (UPSTREAM.md
// Appendix B 6).
func aSpentBudgetHoldsUpResizes(t *testing.T) {
	ns := namespace(t, "up-spent")
	before := map[string]map[types.UID]corev1.Pod{}
	for port, mode := range []string{"InPlace", "InPlaceOrRecreate"} {
		app := fmt.Sprintf("web%d", port)
		create(t, deployment(t, ns, app, 3, fmt.Sprintf("containers: [{name: a, ports: [{containerPort: 80, hostPort: %d}], resources: {requests: {cpu: 100m, memory: 100Mi}}}]", 31080+port)))
		hang.Eventually(t, "a pod on each of the two nodes", func(context.Context) (bool, error) {
			on := podsOf(t, ns, app)
			for uid, p := range on {
				if p.Status.Phase != corev1.PodRunning {
					delete(on, uid)
				}
			}
			before[app] = on
			return len(on) == 2, nil
		})
		watchedOver(t, ns, app, "updatePolicy: {updateMode: "+mode+"}", target("200m", "200Mi"))
	}
	u := startUpdater(t, ns)
	u.decided("web0", "update/budget-spent")
	u.decided("web1", "update/budget-spent")
	u.cycles(1)
	require.Zero(t, u.requests.of("resize", "")+u.requests.of("eviction", ""))
	require.NoError(t, u.Stop())

	u = startUpdater(t, ns, "--in-place-skip-disruption-budget")
	hang.Eventually(t, "all that run resized", func(ctx context.Context) (bool, error) {
		for app, running := range before {
			for uid, p := range podsOf(t, ns, app) {
				if _, runs := running[uid]; runs && p.Spec.Containers[0].Resources.Requests.Cpu().String() != "200m" {
					return false, nil
				}
			}
		}
		return true, nil
	})
	require.Zero(t, u.requests.of("eviction", ""))
}

// aRolloutSurvivesRestarts: a new process computes from the cluster the budget that a killed one
// had in memory.
func aRolloutSurvivesRestarts(t *testing.T) {
	ns := namespace(t, "up-killed")
	before := deployed(t, ns, "web", 3, small)
	least := fewestOf(t, ns)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	for range 2 {
		u := startUpdater(t, ns)
		hang.Eventually(t, "an eviction", func(context.Context) (bool, error) { return u.requests.of("eviction", "web") > 0, nil })
		u.kill()
	}
	startUpdater(t, ns)
	become(t, ns, "web", 3, "200m/- 200Mi/-")
	replaced(t, ns, "web", before)
	require.Equal(t, 2, least("web"))
}

// whatTheCacheDoesNotShowIsNotDoneTwice: for some cycles the updater's watch does not deliver the
// results of its evictions and resizes.
func whatTheCacheDoesNotShowIsNotDoneTwice(t *testing.T) {
	ns := namespace(t, "up-stale")
	before := map[string]map[types.UID]corev1.Pod{"evicted": deployed(t, ns, "evicted", 3, small), "resized": deployed(t, ns, "resized", 2, small)}
	least := fewestOf(t, ns)
	u := startUpdater(t, ns)
	u.cycles(1)
	release := u.requests.holdPods()
	t.Cleanup(release)
	began := time.Now()
	watchedOver(t, ns, "evicted", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	watchedOver(t, ns, "resized", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	leave(t, ns, "evicted", before["evicted"])
	u.cycles(3)
	require.LessOrEqual(t, u.requests.of("eviction", "evicted"), tries(began), "for a minute")
	require.LessOrEqual(t, u.requests.of("resize", "resized"), tries(began), "for a minute")
	release()
	become(t, ns, "resized", 2, "200m/- 200Mi/-")
	become(t, ns, "evicted", 3, "200m/- 200Mi/-")
	u.cycles(1)
	require.Equal(t, 2, least("evicted"))
	require.LessOrEqual(t, u.requests.of("eviction", "evicted"), 3*tries(began))
	require.LessOrEqual(t, u.requests.of("resize", "resized"), 2*tries(began))
	require.Zero(t, u.requests.of("eviction", "resized"))
}

// answersThatComeTooLate: the API server has carried out the request, but the cycle ends before its
// answer.
func answersThatComeTooLate(t *testing.T) {
	ns := namespace(t, "up-late")
	before := map[string]map[types.UID]corev1.Pod{"evicted": deployed(t, ns, "evicted", 3, small), "resized": deployed(t, ns, "resized", 2, small)}
	least := fewestOf(t, ns)
	watchedOver(t, ns, "evicted", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	watchedOver(t, ns, "resized", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	u.requests.delay(5 * time.Second)
	become(t, ns, "resized", 2, "200m/- 200Mi/-")
	become(t, ns, "evicted", 3, "200m/- 200Mi/-")
	u.cycles(1)
	replaced(t, ns, "evicted", before["evicted"])
	same(t, ns, "resized", before["resized"])
	require.GreaterOrEqual(t, least("evicted"), 2)
	require.Zero(t, u.requests.of("eviction", "resized"))
}

// anEvictionWithoutAnAnswer counts as one, even while the cache still has the pod: a replacement
// may not be running yet.
func anEvictionWithoutAnAnswer(t *testing.T) {
	ns := namespace(t, "up-unsure")
	before := deployed(t, ns, "web", 3, small)
	u := startUpdater(t, ns)
	u.cycles(1)
	t.Cleanup(u.requests.holdPods())
	u.requests.delay(time.Minute)
	began := time.Now()
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	var gone string
	hang.Eventually(t, "an eviction", func(ctx context.Context) (bool, error) {
		now := podsOf(t, ns, "web")
		for uid, p := range before {
			if _, still := now[uid]; !still {
				gone = p.Name
				return true, nil
			}
		}
		return false, nil
	})
	u.requests.delay(0)
	u.cycles(3)
	left := 0
	for uid := range podsOf(t, ns, "web") {
		if _, old := before[uid]; old {
			left++
		}
	}
	require.Less(t, left, 3)
	require.GreaterOrEqual(t, left, 3-tries(began), "only %s is evicted for a minute, as long as its successor is not known", gone)
}

// aVPAThatIsTurnedOff during a rollout: its pods are left alone from then on.
func aVPAThatIsTurnedOff(t *testing.T) {
	ns := namespace(t, "up-stopped")
	before := deployed(t, ns, "web", 3, small)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	lift := limited(t, ns, "250m") // so that the pod in the place of the first one comes when it may
	u := startUpdater(t, ns)
	leave(t, ns, "web", before)
	setMode(t, ns, "web", "Off")
	u.cycles(1) // one may have been under way
	lift()
	up(t, ns, "web", 3)
	sent := u.requests.of("eviction", "web")
	u.cycles(2)
	require.Equal(t, sent, u.requests.of("eviction", "web"))
	require.Less(t, sent, 3)
}

func setMode(t *testing.T, ns, name, mode string) {
	t.Helper()
	v := vpa(ns, name, "")
	require.NoError(t, cluster.Patch(t.Context(), v, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"updatePolicy":{"updateMode":"`+mode+`"}}}`))))
}
