package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
)

// Running pods with pod-level resources in a namespace that got a LimitRange of type Container
// later (AEP-7571).

// containerDefaults is such a LimitRange.
const containerDefaults = "[{type: Container, default: {cpu: 150m, memory: 256Mi}}]"

// nobodyIsEvictedWhoWouldBeRefused: the replacement pods would be refused.
func nobodyIsEvictedWhoWouldBeRefused(t *testing.T) {
	ns := namespace(t, "up-refused")
	before := deployed(t, ns, "web", 2, ofItsOwn)
	empty := deployed(t, ns, "empty", 2, "{resources: {}, containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}}}]}")
	limitRange(t, ns, "defaults", containerDefaults)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", moreForBoth)
	watchedOver(t, ns, "empty", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	leave(t, ns, "empty", empty) // an empty stanza is none
	u.cycles(3)
	for _, p := range same(t, ns, "web", before) {
		has(t, &p, hasOfItsOwn...)
	}
	require.Zero(t, u.requests.of("eviction", "web"))
	require.Equal(t, 2, u.counted("celvpa_updater_pods", `rule="eviction/admission-refuses"`))
}

// containersThatShareAreGivenNoDefaults: API servers would apply them to a resize, so the updater
// sends none. If no container lacks a value, the pod is resized, even beyond that default.
func containersThatShareAreGivenNoDefaults(t *testing.T) {
	ns := namespace(t, "up-share")
	shares := deployed(t, ns, "shares", 2, ofItsOwn)
	complete := deployed(t, ns, "complete", 2, "{resources: {requests: {cpu: 300m, memory: 300Mi}, limits: {cpu: 600m, memory: 600Mi}}, "+
		"containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m, memory: 200Mi}}}]}")
	limitRange(t, ns, "defaults", containerDefaults)
	for _, app := range []string{"shares", "complete"} {
		watchedOver(t, ns, app, "updatePolicy: {updateMode: InPlaceOrRecreate}", moreForBoth)
	}
	u := startUpdater(t, ns)
	become(t, ns, "complete", 2, "pod 600m/1200m 600Mi/1200Mi", "400m/800m 400Mi/800Mi")
	u.cycles(2)
	same(t, ns, "complete", complete)
	for _, p := range same(t, ns, "shares", shares) {
		has(t, &p, hasOfItsOwn...)
	}
	require.Zero(t, u.requests.of("resize", "shares")+u.requests.of("eviction", "shares")+u.requests.of("eviction", "complete"))
	require.Equal(t, 2, u.counted("celvpa_updater_pods", `rule="resize/limit-range-defaults"`))

	// The reason: the API server applies the defaults to any resize.
	for _, p := range shares {
		raised := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/resources/requests/memory","value":"400Mi"}]`))
		require.NoError(t, cluster.SubResource("resize").Patch(t.Context(), &p, raised, client.DryRunAll))
		has(t, &p, "pod 300m/600m 400Mi/600Mi", "100m/200m 100Mi/200Mi", "150m/150m 256Mi/256Mi")
		break
	}
}

// annotationsDescribeTheResize, and no longer say what admission set.
func annotationsDescribeTheResize(t *testing.T) {
	ns := namespace(t, "up-annotated")
	before := deployed(t, ns, "web", 2, ofItsOwn)
	for _, p := range before {
		admitted := `{"metadata":{"annotations":{"vpaUpdates":"Pod resources updated by old: pod: memory capped to fit Max in pod LimitRange, memory request","vpaObservedContainers":"a, b","others":"x"}}}`
		require.NoError(t, cluster.Patch(t.Context(), &p, client.RawPatch(types.MergePatchType, []byte(admitted))))
	}
	watchedOver(t, ns, "web", "{updatePolicy: {updateMode: InPlaceOrRecreate}, resourcePolicy: {podPolicies: {maxAllowed: {memory: 500Mi}}}}", moreForBoth)
	u := startUpdater(t, ns)
	become(t, ns, "web", 2, "pod 600m/1200m 500Mi/1000Mi", "400m/800m 400Mi/800Mi", "-/- -/-")
	u.cycles(2)
	for _, p := range same(t, ns, "web", before) {
		hang.Eventually(t, "the mark of the resize", func(ctx context.Context) (bool, error) { // tried again where it came too late for its cycle
			err := cluster.Get(ctx, keyOf(&p), &p)
			return p.Annotations["vpaInPlaceUpdated"] == "true", err
		})
		require.Equal(t, map[string]string{
			"vpaUpdates":            "Pod resources updated by web: pod: memory capped to maxAllowed, cpu request, memory request, cpu limit, memory limit; container 0: cpu request, memory request, cpu limit, memory limit",
			"vpaInPlaceUpdated":     "true",
			"vpaObservedContainers": "a, b",
			"others":                "x",
		}, p.Annotations)
	}
}
