package integration

import (
	"context"
	"fmt"
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

// limitRangesAreKept: the worked examples 1 to 7 (UPSTREAM.md §3.8), and pods that LimitRanger refuses
// as upstream would change them. It judges the patched pods.
func limitRangesAreKept(t *testing.T) {
	examples := []struct {
		name, items, pod, recommendation string
		want                             []string
		updates                          string
	}{
		{"a container's limit is at the maximum", "[{type: Container, max: {cpu: 300m, memory: 1Gi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}]",
			"[{containerName: a, target: {cpu: 250m, memory: 200Mi}}]",
			[]string{"200m/300m 200Mi/400Mi"}, "container 0: cpu capped to fit Max in container LimitRange, cpu request, memory request, cpu limit, memory limit"},
		{"a container's request is at the minimum", "[{type: Container, min: {cpu: 50m, memory: 250Mi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}]",
			"[{containerName: a, target: {cpu: 250m, memory: 100Mi}}]",
			[]string{"250m/375m 250Mi/500Mi"}, "container 0: memory capped to fit Min in container LimitRange, cpu request, memory request, cpu limit, memory limit"},
		{"limits of a pod are at the maximum", "[{type: Pod, max: {cpu: 600m, memory: 1Gi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}, {name: b, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 150m, memory: 200Mi}}}]",
			"[{containerName: a, target: {cpu: 250m, memory: 200Mi}}, {containerName: b, target: {cpu: 250m, memory: 200Mi}}]",
			[]string{"200m/300m 200Mi/400Mi", "200m/300m 200Mi/400Mi"}, "container 0: cpu capped to fit Max in pod LimitRange, cpu request, memory request, cpu limit, memory limit; container 1: cpu capped to fit Max in pod LimitRange, cpu request, memory request, cpu limit, memory limit"},
		{"requests of a pod are at the minimum", "[{type: Pod, min: {cpu: 100m, memory: 500Mi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}, {name: b, resources: {requests: {cpu: 100m, memory: 200Mi}, limits: {cpu: 150m, memory: 400Mi}}}]",
			"[{containerName: a, target: {cpu: 120m, memory: 100Mi}}, {containerName: b, target: {cpu: 120m, memory: 100Mi}}]",
			[]string{"120m/180m 250Mi/500Mi", "120m/180m 250Mi/500Mi"}, ""},
		{"a container without a recommendation gives, too", "[{type: Pod, max: {cpu: 400m, memory: 1Gi}}]",
			"[{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 100m, memory: 100Mi}}}, {name: b, resources: {requests: {cpu: 400m, memory: 600Mi}, limits: {cpu: 400m, memory: 600Mi}}}]",
			"[{containerName: a, target: {cpu: 400m, memory: 600Mi}}]",
			[]string{"200m/200m 512Mi/512Mi", "200m/200m 512Mi/512Mi"}, ""},
		{"CPU is rounded up to a minimum", "[{type: Pod, min: {cpu: 150m}}]",
			"[{name: a, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: b, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: c, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}]",
			"[{containerName: a, target: {cpu: 4m}}, {containerName: b, target: {cpu: 21m}}, {containerName: c, target: {cpu: 90m}}]",
			[]string{"6m/6m -/-", "28m/28m -/-", "118m/118m -/-"}, ""},
		{"and so is memory, with limits or without", "[{type: Pod, min: {memory: 400Mi}}]",
			"[{name: a, resources: {requests: {memory: 300Mi}}}, {name: b, resources: {requests: {memory: 200Mi}}}]",
			"[{containerName: a, target: {memory: 100Mi}}, {containerName: b, target: {memory: 50Mi}}]",
			[]string{"-/- 279620267/-", "-/- 139810134/-"}, ""},
		{"requests are at the maximum where few containers have limits", "[{type: Pod, max: {memory: 440Mi}}]",
			"[{name: a, resources: {requests: {memory: 100Mi}}}, {name: b, resources: {requests: {memory: 100Mi}, limits: {memory: 100Mi}}}]",
			"[{containerName: a, target: {memory: 500Mi}}, {containerName: b, target: {memory: 50Mi}}]",
			[]string{"-/- 400Mi/-", "-/- 40Mi/40Mi"}, ""},
		{"and down to a maximum", "[{type: Pod, max: {cpu: 80m}}]",
			"[{name: a, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: b, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}, {name: c, resources: {requests: {cpu: 1m}, limits: {cpu: 1m}}}]",
			"[{containerName: a, target: {cpu: 4m}}, {containerName: b, target: {cpu: 21m}}, {containerName: c, target: {cpu: 90m}}]",
			[]string{"2m/2m -/-", "14m/14m -/-", "62m/62m -/-"}, ""},
	}
	workloads := make([]workload, len(examples))
	for i, e := range examples {
		ns := namespace(t, fmt.Sprintf("np-range-%d", i+1))
		limitRange(t, ns, "range", e.items)
		workloads[i] = newWorkload(t, ns, "w", "", "containerRecommendations: "+e.recommendation)
	}
	seen(t, "np-range")
	for i, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			p := workloads[i].created(t, "containers: "+e.pod)
			has(t, p, e.want...)
			if e.updates != "" {
				require.Equal(t, e.updates, updates(p))
			}
		})
	}
}
