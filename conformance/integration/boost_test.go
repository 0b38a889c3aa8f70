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
