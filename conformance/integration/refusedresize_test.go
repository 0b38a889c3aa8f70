package integration

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
)

// limited sets a CPU quota for a namespace, and returns a function that lifts it.
func limited(t *testing.T, ns, cpu string) (lift func()) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tight"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.cpu": resource.MustParse(cpu)}}}
	create(t, quota)
	hang.Eventually(t, "the quota to be counted", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, keyOf(quota), quota)
		return len(quota.Status.Used) > 0, err
	})
	return func() { require.NoError(t, cluster.Delete(t.Context(), quota)) }
}

// impatient makes the updater retry one second after a refusal in a namespace, by an overlay.
func impatient(t *testing.T, ns string) {
	t.Helper()
	overlay := &rulesv1alpha1.RuleOverlay{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: rulesv1alpha1.RuleOverlaySpec{
		Mode:   "Enforce",
		Match:  &rulesv1alpha1.RuleOverlayMatch{Namespaces: []string{ns}},
		Change: []rulesv1alpha1.Change{{Params: map[string]apiextensionsv1.JSON{"refusalBackOff": {Raw: []byte(`"1s"`)}}}},
	}}
	create(t, overlay)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.WithoutCancel(t.Context()), overlay)) })
}

// aQuotaRefusesAResize that would refuse the new pod as well.
func aQuotaRefusesAResize(t *testing.T) {
	ns := namespace(t, "up-quota")
	before := deployed(t, ns, "web", 2, small)
	lift := limited(t, ns, "250m")
	impatient(t, ns)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: InPlaceOrRecreate}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	hang.Eventually(t, "two tries", func(context.Context) (bool, error) { return u.requests.of("resize", "web") >= 2, nil })
	u.decided("web", "resize/over-quota")
	requireEvent(t, ns, "ResizeRefused", "exceeded quota: tight")
	u.cycles(1)
	same(t, ns, "web", before)
	require.Zero(t, u.requests.of("eviction", "web"))
	require.Positive(t, u.counted("vpa_updater_failed_in_place_update_attempts_total", `reason="InPlaceUpdateError"`))
	lift()
	become(t, ns, "web", 2, "200m/- 200Mi/-")
	same(t, ns, "web", before)
}

// aNodeWithoutTheFeature refuses resizes of pods with pod-level resources.
func aNodeWithoutTheFeature(t *testing.T) {
	ns := namespace(t, "up-feature")
	bare := bareNode(t, "up-feature")
	spec := "nodeName: " + bare + "\n" + ofItsOwn
	t.Cleanup(func() { // before the node: who makes pods for one that is gone never comes to an end
		require.NoError(t, cluster.DeleteAllOf(context.WithoutCancel(t.Context()), &appsv1.Deployment{}, client.InNamespace(ns)))
	})
	waits, evicts := deployed(t, ns, "waits", 1, spec), deployed(t, ns, "evicts", 1, spec)
	watchedOver(t, ns, "waits", one("InPlace"), moreForBoth)
	watchedOver(t, ns, "evicts", one("InPlaceOrRecreate"), moreForBoth)
	u := startUpdater(t, ns)
	leave(t, ns, "evicts", evicts)
	requireEvent(t, ns, "EvictedByVPA", "update/resize-refused")
	for _, p := range up(t, ns, "evicts", 1) {
		has(t, &p, hasMore...)
	}
	hang.Eventually(t, "the refusal", func(context.Context) (bool, error) { return u.Says("resize/resize-refused-never-evict"), nil })
	u.cycles(2)
	for _, p := range same(t, ns, "waits", waits) {
		has(t, &p, hasOfItsOwn...)
	}
	require.Zero(t, u.requests.of("eviction", "waits"))
}

// bareNode is a node for pods that name it, whose kubelet lacks pod-level resources.
func bareNode(t *testing.T, name string) string {
	t.Helper()
	node := nodeNamed(name)
	node.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
	create(t, node)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.WithoutCancel(t.Context()), node)) })
	return name
}

// aResizeThatIsNotAnswered, or is answered too late, is no reason to evict: the next one may
// succeed. It may have been carried out, so the updater waits until the cache shows it or should
// have.
func aResizeThatIsNotAnswered(t *testing.T) {
	ns := namespace(t, "up-answer")
	answers := []int{http.StatusConflict, http.StatusGatewayTimeout, http.StatusServiceUnavailable, http.StatusInternalServerError}
	before := map[string]map[types.UID]corev1.Pod{}
	for i := range answers {
		app := fmt.Sprintf("web%d", i)
		before[app] = deployed(t, ns, app, 1, small)
	}
	u := startUpdater(t, ns)
	ends := u.refuseAll("web", answers)
	for app := range before {
		watchedOver(t, ns, app, one("InPlaceOrRecreate"), target("200m", "200Mi"))
	}
	ends()
	hang.Eventually(t, "that they are waited for", func(context.Context) (bool, error) { return u.Says("resize/resize-not-answered"), nil })
	for app := range before {
		become(t, ns, app, 1, "200m/- 200Mi/-")
		same(t, ns, app, before[app])
	}
	require.Greater(t, u.requests.longest("resize"), 40*time.Second, "those that nobody answered were waited for, and then tried again")
	require.Zero(t, u.requests.of("eviction", ""))
}
