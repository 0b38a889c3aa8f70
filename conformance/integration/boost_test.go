package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
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
