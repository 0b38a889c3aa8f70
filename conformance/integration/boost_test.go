package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
)

// boosts are workloads whose VPAs boost CPU while a pod starts (UPSTREAM.md §4.6). --max-allowed-cpu-boost is 2.
type boosts struct{ factor, quantity, off, requestsOnly, heldContainer workload }

func newBoosts(t *testing.T) boosts {
	t.Helper()
	ns := namespace(t, "np-boost")
	const recommendation = "containerRecommendations: [{containerName: a, target: {cpu: 250m, memory: 100Mi}}]"
	const thrice = "startupBoost: {cpu: {type: Factor, factor: 3}}"
	return boosts{
		factor:        newWorkload(t, ns, "factor", thrice, recommendation),
		quantity:      newWorkload(t, ns, "quantity", "startupBoost: {cpu: {type: Quantity, quantity: 10}}", recommendation),
		off:           newWorkload(t, ns, "off", "{updatePolicy: {updateMode: 'Off'}, "+thrice+"}", recommendation),
		requestsOnly:  newWorkload(t, ns, "requests-only", "{resourcePolicy: {containerPolicies: [{containerName: a, controlledValues: RequestsOnly}]}, "+thrice+"}", recommendation),
		heldContainer: newWorkload(t, ns, "held", "{resourcePolicy: {containerPolicies: [{containerName: b, mode: 'Off'}]}, "+thrice+"}", recommendation),
	}
}

const started = "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m}}}]"

func (b boosts) areGiven(t *testing.T) {
	const had = `{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{"cpu":"200m"}}`
	p := b.factor.created(t, started)
	has(t, p, "750m/1500m 100Mi/-")
	require.Equal(t, had, p.Annotations["vpaCpuStartupBoost/a"])
	require.Equal(t, "container 0: memory: limit NOT set since originalLimit is nil or 0, cpu request, memory request, cpu limit", updates(p))

	p = b.off.created(t, started)
	has(t, p, "300m/600m 100Mi/-")
	require.Equal(t, had, p.Annotations["vpaCpuStartupBoost/a"])

	has(t, b.quantity.created(t, started), "2/4 100Mi/-") // no more than the flag
	has(t, b.requestsOnly.created(t, started), "199m/200m 100Mi/-")

	p = b.heldContainer.created(t, "containers: [{name: a}, {name: b, resources: {requests: {cpu: 100m}}}]")
	has(t, p, "750m/- 100Mi/-", "100m/- -/-")
	require.Equal(t, `{"requests":{},"limits":{}}`, p.Annotations["vpaCpuStartupBoost/a"])
	require.NotContains(t, p.Annotations, "vpaCpuStartupBoost/b")

	// Pod-level resources cap it.
	p = b.factor.created(t, "{resources: {requests: {cpu: 500m}}, containers: [{name: a, resources: {requests: {cpu: 100m}}}]}")
	has(t, p, "pod 500m/- -/-", "500m/- -/-")
}

func (b boosts) areIgnored(t *testing.T) {
	for _, w := range []workload{b.factor, b.quantity, b.heldContainer} {
		p := w.created(t, started)
		has(t, p, "250m/500m 100Mi/-")
		require.NotContains(t, p.Annotations, "vpaCpuStartupBoost/a")
	}
	p := b.off.created(t, started)
	has(t, p, "100m/200m 100Mi/-")
	require.NotContains(t, p.Annotations, "vpaObservedContainers")
}

// ratios are workloads whose VPAs set limits by a ratio to requests (AEP-8515).
type ratios struct{ factor, aep, quantity, bounded workload }

func newRatios(t *testing.T) ratios {
	t.Helper()
	ns, bounded := namespace(t, "np-ratio"), namespace(t, "np-ratio-bounded")
	limitRange(t, bounded, "containers", "[{type: Container, max: {cpu: 600m}}]")
	const recommendation = "containerRecommendations: [{containerName: a, target: {cpu: 100m, memory: 100Mi}}]"
	return ratios{
		factor:   newWorkload(t, ns, "factor", "resourcePolicy: {containerPolicies: [{containerName: a, requestToLimitRatio: {cpu: {type: Factor, factor: 1.2}, memory: {type: Factor, factor: 2}}}]}", recommendation),
		aep:      newWorkload(t, ns, "aep", "resourcePolicy: {containerPolicies: [{containerName: a, RequestToLimitRatio: {cpu: {type: Factor, factor: 1.2}}}]}", recommendation),
		quantity: newWorkload(t, ns, "quantity", "resourcePolicy: {containerPolicies: [{containerName: a, requestToLimitRatio: {cpu: {type: Quantity, quantity: 200m}, memory: {type: Quantity, quantity: 200Mi}}}]}", recommendation),
		bounded: newWorkload(t, bounded, "bounded", "resourcePolicy: {containerPolicies: [{containerName: a, requestToLimitRatio: {cpu: {type: Factor, factor: 4}}}]}",
			"containerRecommendations: [{containerName: a, target: {cpu: 200m}}]"),
	}
}

const (
	withLimits    = "containers: [{name: a, resources: {requests: {cpu: 10m, memory: 10Mi}, limits: {cpu: 500m, memory: 1000Mi}}}]"
	withoutLimits = "containers: [{name: a, resources: {requests: {cpu: 10m, memory: 10Mi}}}]"
)

func (r ratios) areKept(t *testing.T) {
	has(t, r.factor.created(t, withLimits), "100m/120m 100Mi/200Mi")
	has(t, r.factor.created(t, withoutLimits), "100m/120m 100Mi/200Mi")
	has(t, r.quantity.created(t, withLimits), "100m/300m 100Mi/300Mi")
	has(t, r.quantity.created(t, withoutLimits), "100m/300m 100Mi/300Mi")
	has(t, r.bounded.created(t, "containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}}]"), "150m/600m -/-")
	has(t, r.aep.created(t, withLimits), "100m/120m 100Mi/10000Mi")

	err := cluster.Create(t.Context(), object(r.factor.ns, "requests-only", "resourcePolicy: {containerPolicies: [{containerName: a, controlledValues: RequestsOnly, requestToLimitRatio: {cpu: {type: Factor, factor: 3}}}]}"))
	require.ErrorContains(t, err, "requestToLimitRatio sets limits; it needs controlledValues RequestsAndLimits")

	// The AEP's spelling, which the webhook normalises.
	ns := namespace(t, "np-ratio-aep")
	w := newWorkload(t, ns, "w", "resourcePolicy: {containerPolicies: [{containerName: a, RequestToLimitRatio: {cpu: {type: Factor, factor: 1.2}, memory: {type: Quantity, quantity: 200Mi}}}]}",
		"containerRecommendations: [{containerName: a, target: {cpu: 100m, memory: 100Mi}}]")
	seen(t, ns)
	has(t, w.created(t, withoutLimits), "100m/120m 100Mi/300Mi")
}

func (r ratios) areIgnored(t *testing.T) {
	for _, w := range []workload{r.factor, r.quantity, r.aep} {
		has(t, w.created(t, withLimits), "100m/5 100Mi/10000Mi")
		has(t, w.created(t, withoutLimits), "100m/- 100Mi/-")
	}
	has(t, r.bounded.created(t, "containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}}]"), "200m/200m -/-")
}

// boosted creates a VPA with this update policy and recommendation (empty = none), waits until the
// webhook knows it, and starts a Deployment.
func boosted(t *testing.T, ns, app string, replicas int32, policy, duration, recommendation string) map[types.UID]corev1.Pod {
	t.Helper()
	watchedOver(t, ns, app, "{"+policy+", startupBoost: {cpu: {type: Factor, factor: 3, durationSeconds: "+duration+"}}}", recommendation)
	seen(t, ns+"-"+app)
	return deployed(t, ns, app, replicas, started)
}

const boostOfA = "vpaCpuStartupBoost/a"

// unboosted waits until no pod has a boost annotation.
func unboosted(t *testing.T, ns, app string) {
	t.Helper()
	hang.Eventually(t, "the end of the boost", func(context.Context) (bool, error) {
		for _, p := range podsOf(t, ns, app) {
			if _, still := p.Annotations[boostOfA]; still {
				return false, nil
			}
		}
		return true, nil
	})
}

// aBoostedPodIsResized in modes that resize, and in modes that otherwise leave running pods alone.
func aBoostedPodIsResized(t *testing.T) {
	for _, mode := range []string{"InPlaceOrRecreate", "Recreate", "Initial", "Off"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, "up-unboost-"+strings.ToLower(mode))
			before := boosted(t, ns, "web", 2, "updatePolicy: {updateMode: '"+mode+"'}", "1", target("250m", "100Mi"))
			boost, after := "750m/1500m 100Mi/-", "250m/500m 100Mi/-"
			if mode == "Off" { // that of the pod's own
				boost = "300m/600m 100Mi/-"
			}
			for _, p := range before {
				has(t, &p, boost)
				require.Contains(t, p.Annotations, boostOfA)
			}
			if mode == "Off" {
				after = "100m/200m 100Mi/-"
			}
			u := startUpdater(t, ns)
			become(t, ns, "web", 2, after)
			unboosted(t, ns, "web")
			u.cycles(2)
			same(t, ns, "web", before)
			require.LessOrEqual(t, u.requests.of("resize", "web"), 2, "one for each pod")
			require.Zero(t, u.requests.of("eviction", "web"))
		})
	}
}

func aBoostedPodHasItsOwnBack(t *testing.T) {
	ns := namespace(t, "up-unboost-own")
	before := boosted(t, ns, "web", 2, "updatePolicy: {updateMode: Recreate}", "1", "")
	for _, p := range before {
		has(t, &p, "300m/600m 100Mi/-")
	}
	u := startUpdater(t, ns)
	become(t, ns, "web", 2, "100m/200m 100Mi/-")
	unboosted(t, ns, "web")
	u.cycles(1)
	same(t, ns, "web", before)
	require.Zero(t, u.requests.of("eviction", "web"))
}

// aPodIsNotEvictedWhileBoosted, nor resized, although it requests three times the recommendation.
func aPodIsNotEvictedWhileBoosted(t *testing.T) {
	ns := namespace(t, "up-boosted")
	before := boosted(t, ns, "web", 2, "updatePolicy: {updateMode: Recreate}", "3600", target("250m", "100Mi"))
	u := startUpdater(t, ns)
	u.decided("web", "eligibility/boosted")
	recommendNow(t, ns, "web", target("500m", "500Mi"))
	u.cycles(3)
	for _, p := range same(t, ns, "web", before) {
		has(t, &p, "750m/1500m 100Mi/-")
		require.Contains(t, p.Annotations, boostOfA)
	}
	require.Zero(t, u.requests.of("eviction", "web")+u.requests.of("resize", "web"))
}

// aBoostEndsWhenTheVPASaysSo: it would last an hour, and is removed from the VPA or shortened. A
// pod that is not ready keeps it.
func aBoostEndsWhenTheVPASaysSo(t *testing.T) {
	ns := namespace(t, "up-unboost-vpa")
	const mode, hour = "updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}", "3600"
	before := map[string]map[types.UID]corev1.Pod{
		"removed":   boosted(t, ns, "removed", 1, mode, hour, target("250m", "100Mi")),
		"shortened": boosted(t, ns, "shortened", 1, mode, hour, target("250m", "100Mi")),
		"unready":   boosted(t, ns, "unready", 1, mode, hour, target("250m", "100Mi")),
	}
	ready := func(app, status string) {
		for _, p := range podsOf(t, ns, app) {
			patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"` + status + `","lastTransitionTime":"` + time.Now().UTC().Format(time.RFC3339) + `"}]}}`)
			require.NoError(t, cluster.Status().Patch(t.Context(), &p, client.RawPatch(types.StrategicMergePatchType, patch)))
		}
	}
	ready("unready", "False")
	u := startUpdater(t, ns)
	for app := range before {
		u.decided(app, "eligibility/boosted")
	}
	change := func(app, patch string) {
		require.NoError(t, cluster.Patch(t.Context(), vpa(ns, app, ""), client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	change("removed", `{"spec":{"startupBoost":null}}`)
	change("shortened", `{"spec":{"startupBoost":{"cpu":{"durationSeconds":1}}}}`)
	change("unready", `{"spec":{"startupBoost":{"cpu":{"durationSeconds":1}}}}`)
	for _, app := range []string{"removed", "shortened"} {
		become(t, ns, app, 1, "250m/500m 100Mi/-")
		unboosted(t, ns, app)
	}
	u.cycles(1)
	for _, p := range same(t, ns, "unready", before["unready"]) {
		has(t, &p, "750m/1500m 100Mi/-")
	}
	ready("unready", "True")
	become(t, ns, "unready", 1, "250m/500m 100Mi/-")
	for app := range before {
		same(t, ns, app, before[app])
	}
	require.Zero(t, u.requests.of("eviction", ""))
}

// theEndOfABoostIsWaitedFor: in mode Recreate, too, a pod is not evicted because its node is slow
// to reduce its CPU.
func theEndOfABoostIsWaitedFor(t *testing.T) {
	ns := namespace(t, "up-unboost-slow")
	before := boosted(t, ns, "web", 1, one("Recreate"), "1", target("250m", "100Mi"))
	inPhase(t, before, corev1.PodUnknown)
	u := startUpdater(t, ns)
	unboosted(t, ns, "web")
	u.cycles(3)
	require.Zero(t, u.requests.of("eviction", "web"))
	for uid, p := range podsOf(t, ns, "web") {
		require.Contains(t, before, uid)
		has(t, &p, "250m/500m 100Mi/-")
		require.Equal(t, "750m", p.Status.ContainerStatuses[0].Resources.Requests.Cpu().String())
	}
	inPhase(t, before, corev1.PodRunning)
	become(t, ns, "web", 1, "250m/500m 100Mi/-")
	u.cycles(1)
	same(t, ns, "web", before)
	require.Zero(t, u.requests.of("eviction", "web"))
}
