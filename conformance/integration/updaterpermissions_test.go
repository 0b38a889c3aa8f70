package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// forgottenToo is another namespace that the webhook does not serve.
const forgottenToo = "up-permissions-forgotten"

// upstreamsPermissionsAreEnough: the updater runs with the account of upstream's manifests. They do
// not allow writing the condition, so there is only an event.
func upstreamsPermissionsAreEnough(t *testing.T) {
	const user = "system:serviceaccount:kube-system:vpa-updater"
	crds := upstreamCRDs(t)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(crds), "vpa-rbac.yaml"))
	require.NoError(t, err)
	objects, err := harness.Decode(text)
	require.NoError(t, err)
	for _, o := range objects {
		create(t, o)
		t.Cleanup(func() { require.NoError(t, cluster.Delete(context.WithoutCancel(t.Context()), o)) })
	}

	ns, forgotten := namespace(t, "up-permissions"), namespace(t, forgottenToo)
	deployed(t, ns, "evicted", 2, small)
	deployed(t, ns, "resized", 2, small)
	deployed(t, forgotten, "web", 2, small)
	boosted(t, ns, "boosted", 1, "updatePolicy: {updateMode: Initial}", "1", target("250m", "100Mi"))
	watchedOver(t, ns, "evicted", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	watchedOver(t, ns, "resized", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	watchedOver(t, forgotten, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	as := clientcmdapi.AuthInfo{Impersonate: user}
	u, v := startUpdaterAs(t, as, ns), startUpdaterAs(t, as, forgotten)
	become(t, ns, "evicted", 2, "200m/- 200Mi/-")
	become(t, ns, "resized", 2, "200m/- 200Mi/-")
	become(t, ns, "boosted", 1, "250m/500m 100Mi/-")
	unboosted(t, ns, "boosted")
	requireEvent(t, ns, "EvictedPod", "update/evict")
	requireEvent(t, forgotten, "UpdatesHaveNoEffect", "eviction/successors-unchanged")
	hang.Eventually(t, "what the condition would report", func(context.Context) (bool, error) {
		return v.Says("no permission to write condition UpdatesHaveNoEffect; grant patch on verticalpodautoscalers/status"), nil
	})
	v.cycles(1)
	u.forbiddenOnly(`ruleoverlays`, `verticalpodautoscalers/status`) // celvpa's own
	v.forbiddenOnly(`ruleoverlays`, `verticalpodautoscalers/status`)
}

// forbiddenOnly requires that the log reports no other forbidden request.
func (u *anUpdater) forbiddenOnly(but ...string) {
	u.t.Helper()
	for _, line := range u.Lines() {
		text := fmt.Sprint(line)
		if strings.Contains(text, "forbidden") && !slices.ContainsFunc(but, func(one string) bool { return strings.Contains(text, one) }) {
			require.Fail(u.t, "this was forbidden", text)
		}
	}
}

// thePermissionsOfTheUpdaterInTheDocsAreThoseItNeeds runs the updater with the permissions of
// docs/updater.md: they are enough, and all are used.
func thePermissionsOfTheUpdaterInTheDocsAreThoseItNeeds(t *testing.T) {
	a := accountOfTheDocs(t, "updater.md", "updater-of-the-docs")
	ns, forgotten := namespace(t, "up-docs"), namespace(t, forgottenByTheDocs)
	held := deployed(t, ns, "held", 2, small)
	tried := deployed(t, ns, "tried", 1, small)
	deployed(t, ns, "evicted", 2, small)
	deployed(t, ns, "resized", 2, small)
	deployed(t, forgotten, "web", 2, small)
	boosted(t, ns, "boosted", 1, "updatePolicy: {updateMode: Initial}", "1", target("250m", "100Mi"))
	create(t, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "keep-all"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "held"}}}})
	for app, mode := range map[string]string{"held": "Recreate", "evicted": "Recreate", "resized": "InPlaceOrRecreate"} {
		watchedOver(t, ns, app, "updatePolicy: {updateMode: "+mode+"}", target("200m", "200Mi"))
	}
	watchedOver(t, ns, "tried", one("InPlace"), target("40", "200Mi"))
	watchedOver(t, forgotten, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	owner := a.asksForACustomKind(t, vpa(ns, "custom", vpav1.UpdateModeRecreate))
	create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "custom", OwnerReferences: []metav1.OwnerReference{owner}}, Spec: podSpec(t, small)})
	recommendNow(t, ns, "custom", target("200m", "200Mi"))
	u := startUpdaterAs(t, a.info(), ns, "--leader-elect=false")
	v := startUpdaterAs(t, a.info(), forgotten)
	become(t, ns, "evicted", 2, "200m/- 200Mi/-")
	become(t, ns, "resized", 2, "200m/- 200Mi/-")
	become(t, ns, "boosted", 1, "250m/500m 100Mi/-")
	unboosted(t, ns, "boosted")
	requireEvent(t, ns, "EvictionRefused", "")
	requireEvent(t, ns, "InPlaceResizeSkipped", "resize/known-infeasible")
	hang.Eventually(t, "the condition", func(ctx context.Context) (bool, error) {
		var written vpav1.VerticalPodAutoscaler
		err := cluster.Get(ctx, client.ObjectKey{Namespace: forgotten, Name: "web"}, &written)
		return condition(&written, "UpdatesHaveNoEffect") != nil, err
	})
	u.cycles(1)
	same(t, ns, "held", held)
	same(t, ns, "tried", tried)
	u.forbiddenOnly("NodeCapacity", "Node didn't have enough capacity", "node capacity")
	v.forbiddenOnly()
	a.usesAllItMay(t, map[string]string{
		"get verticalpodautoscalers.autoscaling.k8s.io": "one whose status another process wrote meanwhile is read before its condition is written",
	})
}

// forgottenByTheDocs is a third namespace that the webhook does not serve.
const forgottenByTheDocs = "up-docs-forgotten"

// withoutPermissionToResize the updater does not evict instead: missing permissions are not the
// pods' fault.
func withoutPermissionToResize(t *testing.T) {
	a := accountOfTheDocs(t, "updater.md", "updater-without-resizes")
	a.Role.Rules = slices.DeleteFunc(a.Role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/resize") })
	require.NoError(t, cluster.Update(t.Context(), a.Role))
	ns := namespace(t, "up-forbidden")
	before := deployed(t, ns, "web", 2, small)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	u := startUpdaterAs(t, a.info(), ns)
	u.decided("web", "resize/not-permitted")
	requireEvent(t, ns, "ResizeRefused", "cannot patch resource")
	u.cycles(1)
	for _, p := range same(t, ns, "web", before) {
		has(t, &p, "100m/- 100Mi/-")
	}
	require.Zero(t, u.requests.of("eviction", "web"))
}

// whereOnlyCoreEventsAreAllowed, as by charts for the older API, no event is lost.
func whereOnlyCoreEventsAreAllowed(t *testing.T) {
	a := accountOfTheDocs(t, "updater.md", "updater-with-core-events")
	for i := range a.Role.Rules {
		if r := &a.Role.Rules[i]; slices.Contains(r.APIGroups, "events.k8s.io") {
			r.APIGroups = []string{""}
		}
	}
	require.NoError(t, cluster.Update(t.Context(), a.Role))
	ns := namespace(t, "up-core-events")
	deployed(t, ns, "web", 2, small)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	u := startUpdaterAs(t, a.info(), ns)
	become(t, ns, "web", 2, "200m/- 200Mi/-")
	requireEvent(t, ns, "EvictedPod", "update/evict")
	requireEvent(t, ns, "EvictedByVPA", "update/evict")
	require.Equal(t, 1, u.Log.Count("events are written to the core API from now on: this process may not create events in API group events.k8s.io"))
	require.Zero(t, u.counted("celvpa_dropped_events_total"))
}

// aPatchForAnotherPodOfTheName changes nothing, and the API server answers it without a reason, as
// the updater expects.
func aPatchForAnotherPodOfTheName(t *testing.T) {
	ns := namespace(t, "up-uid")
	for _, p := range deployed(t, ns, "web", 1, small) {
		body := []byte(`[{"op":"test","path":"/metadata/uid","value":"of-another"},{"op":"add","path":"/spec/containers/0/resources/requests/cpu","value":"200m"}]`)
		err := cluster.SubResource("resize").Patch(t.Context(), p.DeepCopy(), client.RawPatch(types.JSONPatchType, body))
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.EqualError(t, err, "the server rejected our request due to an error in our request")
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.Name}, DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("of-another")}}
		err = cluster.SubResource("eviction").Create(t.Context(), p.DeepCopy(), eviction)
		require.True(t, apierrors.IsConflict(err), "%v", err)
		require.ErrorContains(t, err, "UID")
		for _, now := range same(t, ns, "web", map[types.UID]corev1.Pod{p.UID: p}) {
			has(t, &now, "100m/- 100Mi/-")
		}
	}
}
