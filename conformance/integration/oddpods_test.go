package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// badInputStopsNobodyElse: pods and VPAs that no controller would create, beside a valid workload.
func badInputStopsNobodyElse(t *testing.T) {
	ns := namespace(t, "up-odd")
	const mode = "updatePolicy: {updateMode: InPlaceOrRecreate}"
	odd := deployed(t, ns, "odd", 2, small)
	good := deployed(t, ns, "good", 2, small)

	// One pod has no start time, the other an unreadable vpaObservedContainers annotation.
	startless := true
	for _, p := range odd {
		if startless {
			require.NoError(t, cluster.Status().Patch(t.Context(), &p, client.RawPatch(types.MergePatchType, []byte(`{"status":{"startTime":null}}`))))
			require.Nil(t, p.Status.StartTime)
			startless = false
			continue
		}
		annotate(t, &p, "vpaObservedContainers", "%%, a,,")
	}

	// A third has an owner reference without controller: true, and one has no owner.
	for _, owners := range [][]metav1.OwnerReference{{ownerOf(odd)}, nil} {
		create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "stray-", Labels: map[string]string{"app": "odd"}, OwnerReferences: owners}, Spec: podSpec(t, small)})
	}
	// Owners that own each other.
	require.NoError(t, client.IgnoreAlreadyExists(cluster.Create(t.Context(), rolloutCRD())))
	require.NoError(t, cluster.WaitEstablished(t.Context(), rolloutCRD().Name))
	circle(t, ns, "round", "about")
	up(t, ns, "odd", 4)

	watchedOver(t, ns, "gone", mode, target("200m", "200Mi"))
	watchedOver(t, ns, "round", "{targetRef: {apiVersion: example.com/v1, kind: Rollout, name: round}, "+mode+"}", target("200m", "200Mi"))
	watchedOver(t, ns, "odd", mode, target("200m", "200Mi"))
	watchedOver(t, ns, "good", mode, target("200m", "200Mi"))
	watchedOver(t, ns, "empty", mode, "containerRecommendations: []")
	u := startUpdater(t, ns)
	become(t, ns, "good", 2, "200m/- 200Mi/-")
	u.cycles(2)
	same(t, ns, "good", good)
	now := podsOf(t, ns, "odd")
	require.Len(t, now, 4)
	for uid, p := range now {
		if _, deployed := odd[uid]; deployed {
			has(t, &p, "200m/- 200Mi/-")
		} else {
			has(t, &p, "100m/- 100Mi/-")
		}
	}
	for _, p := range podsOf(t, ns, "round") {
		has(t, &p, "100m/- 100Mi/-")
	}
	require.Zero(t, u.requests.of("eviction", "odd")+u.requests.of("eviction", "stray")+u.requests.of("eviction", "round"))
}

// ownerOf is an owner reference of pods without the field controller.
func ownerOf(list map[types.UID]corev1.Pod) (out metav1.OwnerReference) {
	for _, p := range list {
		out = p.OwnerReferences[0]
	}
	out.Controller, out.BlockOwnerDeletion = nil, nil
	return out
}

// circle is two custom owners, each the controller of the other, and a pod of the first.
func circle(t *testing.T, ns, first, second string) {
	t.Helper()
	rollout := func(name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Rollout",
			"metadata": map[string]any{"namespace": ns, "name": name}, "spec": map[string]any{"replicas": int64(1)}}}
		create(t, u)
		require.NoError(t, unstructured.SetNestedMap(u.Object, map[string]any{"replicas": int64(1), "selector": "app=" + first}, "status"))
		require.NoError(t, cluster.Status().Update(t.Context(), u))
		return u
	}
	a, b := rollout(first), rollout(second)
	own := func(owned client.Object, by *unstructured.Unstructured) {
		owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Rollout", Name: by.GetName(), UID: by.GetUID(), Controller: ptr.To(true)}})
	}
	own(a, b)
	own(b, a)
	require.NoError(t, cluster.Update(t.Context(), a))
	require.NoError(t, cluster.Update(t.Context(), b))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: first + "-", Labels: map[string]string{"app": first}}, Spec: podSpec(t, small)}
	own(p, a)
	create(t, p)
	up(t, ns, first, 1)
}
