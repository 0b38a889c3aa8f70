package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// What running pods get in addition to container requests: limits by ratio (AEP-8515) and pod-level
// resources (AEP-7571).

const twice = "resourcePolicy: {containerPolicies: [{containerName: a, requestToLimitRatio: {cpu: {type: Factor, factor: 2}, memory: {type: Quantity, quantity: 100Mi}}}]}"

// qosClassChanges: a Guaranteed pod would lose its class, and API servers refuse that. The updater
// sends nothing.
func qosClassChanges(t *testing.T) {
	ns := namespace(t, "up-qos")
	before := deployed(t, ns, "web", 2, "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 100m, memory: 100Mi}}}]")
	waits := deployed(t, ns, "waits", 1, "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 100m, memory: 100Mi}}}]")
	watchedOver(t, ns, "web", "{updatePolicy: {updateMode: InPlaceOrRecreate}, "+twice+"}", target("200m", "200Mi"))
	watchedOver(t, ns, "waits", "{"+one("InPlace")+", "+twice+"}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	for _, p := range become(t, ns, "web", 2, "200m/400m 200Mi/300Mi") {
		require.Equal(t, corev1.PodQOSBurstable, p.Status.QOSClass)
	}
	replaced(t, ns, "web", before)
	requireEvent(t, ns, "EvictedByVPA", "update/qos-class")
	u.cycles(1)
	same(t, ns, "waits", waits)
	require.Zero(t, u.requests.of("resize", "web")+u.requests.of("resize", "waits"))
	require.LessOrEqual(t, u.requests.of("eviction", "web"), 2, "one for each pod")
	require.Zero(t, u.requests.of("eviction", "waits"))
}

func qosClassDoesNotChange(t *testing.T) {
	ns := namespace(t, "up-ratio")
	before := deployed(t, ns, "web", 2, "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 1, memory: 1Gi}}}]")
	watchedOver(t, ns, "web", "{updatePolicy: {updateMode: InPlaceOrRecreate}, "+twice+"}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	become(t, ns, "web", 2, "200m/400m 200Mi/300Mi")
	same(t, ns, "web", before)
	require.Zero(t, u.requests.of("eviction", "web"))
}

// A pod with pod-level resources and resources for one container, and a recommendation above both.
const ofItsOwn = "resources: {requests: {cpu: 300m, memory: 300Mi}, limits: {cpu: 600m, memory: 600Mi}}\n" +
	"containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m, memory: 200Mi}}}, {name: b}]"

var (
	hasOfItsOwn = []string{"pod 300m/600m 300Mi/600Mi", "100m/200m 100Mi/200Mi", "-/- -/-"}

	moreForBoth = "{containerRecommendations: [" + targetOf("a", "400m", "400Mi") + ", " + targetOf("b", "200m", "200Mi") + "], " +
		"podRecommendation: {target: {cpu: 600m, memory: 600Mi}, lowerBound: {cpu: 600m, memory: 600Mi}, upperBound: {cpu: 600m, memory: 600Mi}}}"
	hasMore = []string{"pod 600m/1200m 600Mi/1200Mi", "400m/800m 400Mi/800Mi", "-/- -/-"}
)

func recreateReplacesPodsWithTheirOwn(t *testing.T) {
	ns := namespace(t, "up-podrecreate")
	before := deployed(t, ns, "web", 2, ofItsOwn)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", moreForBoth)
	u := startUpdater(t, ns)
	become(t, ns, "web", 2, hasMore...)
	replaced(t, ns, "web", before)
	u.cycles(2)
	require.Zero(t, u.requests.of("resize", "web"))
	require.LessOrEqual(t, u.requests.of("eviction", "web"), 2, "one for each pod")
}

// bothStanzasInOneGo: up and down again. The API server accepts every state in between.
func bothStanzasInOneGo(t *testing.T) {
	ns := namespace(t, "up-podinplace")
	before := deployed(t, ns, "web", 2, ofItsOwn)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: InPlaceOrRecreate}", moreForBoth)
	u := startUpdater(t, ns)
	become(t, ns, "web", 2, hasMore...)
	require.LessOrEqual(t, u.requests.of("resize", "web"), 2, "one for each pod")
	recommendNow(t, ns, "web", "{containerRecommendations: ["+targetOf("a", "50m", "50Mi")+", "+targetOf("b", "50m", "50Mi")+"], "+
		"podRecommendation: {target: {cpu: 100m, memory: 100Mi}, lowerBound: {cpu: 100m, memory: 100Mi}, upperBound: {cpu: 100m, memory: 100Mi}}}")
	become(t, ns, "web", 2, "pod 100m/200m 100Mi/200Mi", "50m/100m 50Mi/100Mi", "-/- -/-")
	require.LessOrEqual(t, u.requests.of("resize", "web"), 4)
	u.cycles(2)
	same(t, ns, "web", before)
	require.LessOrEqual(t, u.requests.of("resize", "web"), 4)
	require.Zero(t, u.requests.of("eviction", "web"))
}

// nothingButResourcesOfItsOwn: pod-level resources alone are a reason for a resize.
func nothingButResourcesOfItsOwn(t *testing.T) {
	ns := namespace(t, "up-podonly")
	const spec = "{resources: {requests: {cpu: 300m, memory: 300Mi}, limits: {cpu: 600m, memory: 600Mi}}, containers: [{name: a}, {name: b}]}"
	resized, replacedOnes := deployed(t, ns, "resized", 2, spec), deployed(t, ns, "replaced", 2, spec)
	watchedOver(t, ns, "resized", "updatePolicy: {updateMode: InPlaceOrRecreate}", moreForBoth)
	watchedOver(t, ns, "replaced", "updatePolicy: {updateMode: Recreate}", moreForBoth)
	u := startUpdater(t, ns)
	want := []string{"pod 600m/1200m 600Mi/1200Mi", "-/- -/-", "-/- -/-"}
	become(t, ns, "resized", 2, want...)
	same(t, ns, "resized", resized)
	become(t, ns, "replaced", 2, want...)
	replaced(t, ns, "replaced", replacedOnes)
	u.cycles(2)
	require.LessOrEqual(t, u.requests.of("resize", "resized"), 2)
	require.Zero(t, u.requests.of("eviction", "resized"))
	require.LessOrEqual(t, u.requests.of("eviction", "replaced"), 2)
}
