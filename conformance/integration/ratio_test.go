package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
