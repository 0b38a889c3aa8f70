package integration

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// fewestOf watches how many pods of each workload in a namespace run, starting when some do. The
// function that it returns reports the minimum.
func fewestOf(t *testing.T, ns string) (least func(app string) int) {
	t.Helper()
	api, err := kubernetes.NewForConfig(cluster.Config)
	require.NoError(t, err)
	list, err := api.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	follow, err := api.CoreV1().Pods(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	t.Cleanup(follow.Stop)
	var mu sync.Mutex
	running, fewest := map[string]map[types.UID]bool{}, map[string]int{}
	note := func(p *corev1.Pod, gone bool) {
		app := p.Labels["app"]
		if running[app] == nil {
			running[app] = map[types.UID]bool{}
		}
		if !gone && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			running[app][p.UID] = true
		} else {
			delete(running[app], p.UID)
		}
	}
	for i := range list.Items {
		note(&list.Items[i], false)
	}
	for app := range running {
		fewest[app] = len(running[app])
	}
	go func() {
		for e := range follow.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok {
				mu.Lock()
				note(p, e.Type == "DELETED")
				fewest[p.Labels["app"]] = min(fewest[p.Labels["app"]], len(running[p.Labels["app"]]))
				mu.Unlock()
			}
		}
	}()
	return func(app string) int {
		mu.Lock()
		defer mu.Unlock()
		return fewest[app]
	}
}

// aRolloutKeepsToItsBudget for workloads of every kind: half of the pods, rounded down, may be
// missing (UPSTREAM.md §5.9).
func aRolloutKeepsToItsBudget(t *testing.T) {
	ns := namespace(t, "up-rollout")
	template := func(app, spec string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
		labels := map[string]string{"app": app}
		return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(t, spec)}
	}
	named := func(app string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: app} }
	set, daemon, bare := &appsv1.StatefulSet{ObjectMeta: named("stateful")}, &appsv1.DaemonSet{ObjectMeta: named("daemon")}, &appsv1.ReplicaSet{ObjectMeta: named("bare")}
	set.Spec.Replicas, bare.Spec.Replicas = ptr.To[int32](3), ptr.To[int32](3)
	set.Spec.Selector, set.Spec.Template = template("stateful", small)
	daemon.Spec.Selector, daemon.Spec.Template = template("daemon", small+"\nnodeSelector: {type: kwok}") // two nodes
	bare.Spec.Selector, bare.Spec.Template = template("bare", small)
	old := &corev1.ReplicationController{ObjectMeta: named("old"), Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](4), Selector: map[string]string{"app": "old"}}}
	_, pod := template("old", small)
	old.Spec.Template = &pod
	create(t, deployment(t, ns, "web", 3, small), set, daemon, bare, old)
	workloads := map[string]struct {
		apiVersion, kind string
		pods, least      int
	}{
		"web": {"apps/v1", "Deployment", 3, 2}, "stateful": {"apps/v1", "StatefulSet", 3, 2}, "daemon": {"apps/v1", "DaemonSet", 2, 1},
		"bare": {"apps/v1", "ReplicaSet", 3, 2}, "old": {"v1", "ReplicationController", 4, 2},
	}
	before := map[string]map[types.UID]corev1.Pod{}
	for app, w := range workloads {
		before[app] = up(t, ns, app, w.pods)
	}
	least := fewestOf(t, ns)
	for app, w := range workloads {
		watchedOver(t, ns, app, "{targetRef: {apiVersion: "+w.apiVersion+", kind: "+w.kind+", name: "+app+"}, updatePolicy: {updateMode: Recreate}}", target("200m", "200Mi"))
	}
	u := startUpdater(t, ns)
	for app, w := range workloads {
		become(t, ns, app, w.pods, "200m/- 200Mi/-")
		replaced(t, ns, app, before[app])
	}
	u.cycles(1)
	for app, w := range workloads {
		require.GreaterOrEqual(t, least(app), w.least, app) // more where a replacement runs before the next one is evicted
		require.Equal(t, w.pods, u.requests.of("eviction", app), "each pod of %s is evicted once", app)
		u.hasCounted(w.pods, "vpa_updater_evicted_pods_total", `vpa_name="`+app+`"`, `vpa_namespace="`+ns+`"`, `update_mode="Recreate"`)
	}
}

// aPodDisruptionBudgetOfZero: evictions back off instead of being tried for each pod in each cycle.
func aPodDisruptionBudgetOfZero(t *testing.T) {
	ns := namespace(t, "up-pdb")
	before := deployed(t, ns, "web", 3, small)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "keep-all"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	create(t, budget)
	hang.Eventually(t, "the budget to be counted", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, keyOf(budget), budget)
		return budget.Status.ExpectedPods == 3, err
	})
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	began := time.Now()
	u := startUpdater(t, ns)
	requireEvent(t, ns, "EvictionRefused", "keep-all")
	u.decided("web", "update/disruption-budget")
	u.cycles(4)
	for _, p := range same(t, ns, "web", before) {
		has(t, &p, "100m/- 100Mi/-")
	}
	require.Positive(t, u.counted("vpa_updater_failed_eviction_attempts_total", `reason="EvictionError"`, `vpa_name="web"`))
	require.Zero(t, u.counted("vpa_updater_evicted_pods_total"))
	require.Positive(t, u.requests.of("eviction", "web"))
	require.LessOrEqual(t, u.requests.of("eviction", "web"), tries(began), "once a minute at first")
}

// podsThatComeBackUnchanged: the webhook does not serve this namespace, so replacement pods keep
// their resources. The updater gives up.
func podsThatComeBackUnchanged(t *testing.T) {
	ns := namespace(t, forgotten)
	deployed(t, ns, "web", 2, small)
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	noEffect := func() *vpav1.VerticalPodAutoscalerCondition {
		v := &vpav1.VerticalPodAutoscaler{}
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "web"}, v))
		return condition(v, "UpdatesHaveNoEffect")
	}
	hang.Eventually(t, "the condition", func(context.Context) (bool, error) { return noEffect() != nil, nil })
	require.Equal(t, corev1.ConditionTrue, noEffect().Status)
	require.Equal(t, "eviction/successors-unchanged", noEffect().Reason)
	require.Contains(t, noEffect().Message, "replacement pods of Deployment web keep the resources of the evicted ones")
	requireEvent(t, ns, "UpdatesHaveNoEffect", "eviction/successors-unchanged")
	sent := u.requests.of("eviction", "web")
	u.cycles(2)
	require.Equal(t, sent, u.requests.of("eviction", "web"))
	require.GreaterOrEqual(t, sent, 3)
	require.LessOrEqual(t, sent, 5, "three, and those that were under way when the third came back")

	setMode(t, ns, "web", "Off")
	hang.Eventually(t, "the condition to be gone", func(context.Context) (bool, error) { return noEffect() == nil, nil })
}

// newPodsThatAreRefused: two of four pods are lost to the eviction tolerance, and no more.
func newPodsThatAreRefused(t *testing.T) {
	ns := namespace(t, "up-not-created")
	deployed(t, ns, "web", 4, small)
	lift := limited(t, ns, "300m")
	watchedOver(t, ns, "web", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	u.decided("web", "eviction/new-pods-refused")
	requireEvent(t, ns, "UpdatesHaveNoEffect", "eviction/new-pods-refused")
	noEffect := func() *vpav1.VerticalPodAutoscalerCondition {
		v := &vpav1.VerticalPodAutoscaler{}
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "web"}, v))
		return condition(v, "UpdatesHaveNoEffect")
	}
	require.Contains(t, noEffect().Message, "exceeded quota: tight")
	u.cycles(3)
	require.Equal(t, 2, u.requests.of("eviction", "web"))

	lift()
	hang.Eventually(t, "the ReplicaSet to try again", func(context.Context) (bool, error) { return len(podsOf(t, ns, "web")) == 4, nil })
	become(t, ns, "web", 4, "200m/- 200Mi/-")
	hang.Eventually(t, "the condition to be gone", func(context.Context) (bool, error) { return noEffect() == nil, nil })
}

// forgotten is a namespace that the webhook does not serve.
const forgotten = "up-forgotten"

// podsOfACustomOwner: no controller replaces them, so half of them may be evicted (UPSTREAM.md
// Appendix B 7).
func podsOfACustomOwner(t *testing.T) {
	ns := namespace(t, "up-custom")
	require.NoError(t, client.IgnoreAlreadyExists(cluster.Create(t.Context(), rolloutCRD())))
	require.NoError(t, cluster.WaitEstablished(t.Context(), rolloutCRD().Name))
	owner := &unstructured.Unstructured{}
	hang.Eventually(t, "the kind Rollout", func(ctx context.Context) (bool, error) {
		owner.Object = map[string]any{"apiVersion": "example.com/v1", "kind": "Rollout",
			"metadata": map[string]any{"namespace": ns, "name": "web"}, "spec": map[string]any{"replicas": int64(4)}}
		return cluster.Create(ctx, owner) == nil, nil
	})
	require.NoError(t, unstructured.SetNestedMap(owner.Object, map[string]any{"replicas": int64(4), "selector": "app=web"}, "status"))
	require.NoError(t, cluster.Status().Update(t.Context(), owner))
	for range 4 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "web-", Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "example.com/v1", Kind: "Rollout", Name: "web", UID: owner.GetUID(), Controller: ptr.To(true)}}}, Spec: podSpec(t, small)}
		create(t, p)
	}
	up(t, ns, "web", 4)
	least := fewestOf(t, ns)
	watchedOver(t, ns, "web", "{targetRef: {apiVersion: example.com/v1, kind: Rollout, name: web}, updatePolicy: {updateMode: Recreate}}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	hang.Eventually(t, "two pods evicted", func(context.Context) (bool, error) { return len(podsOf(t, ns, "web")) <= 2, nil })
	u.cycles(3)
	require.Len(t, podsOf(t, ns, "web"), 2)
	require.Equal(t, 2, least("web"))
	require.Equal(t, 2, u.requests.of("eviction", "web"))
}

// aBoostedPodLiftsNoGuard: a workload below its minReplicas loses no pod, even if one of its pods
// is boosted (UPSTREAM.md Appendix B 8).
func aBoostedPodLiftsNoGuard(t *testing.T) {
	ns := namespace(t, "up-guard")
	before := deployed(t, ns, "web", 2, small)
	for _, p := range before {
		annotate(t, &p, "vpaCpuStartupBoost/a", `{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{}}`)
		break
	}
	watchedOver(t, ns, "web", "{updatePolicy: {updateMode: Recreate, minReplicas: 3}, startupBoost: {cpu: {type: Factor, factor: 2, durationSeconds: 3600}}}", target("200m", "200Mi"))
	busy := deployed(t, ns, "busy", 2, small)
	watchedOver(t, ns, "busy", "updatePolicy: {updateMode: Recreate}", target("200m", "200Mi"))
	u := startUpdater(t, ns)
	leave(t, ns, "busy", busy)
	u.cycles(2)
	same(t, ns, "web", before)
	require.Zero(t, u.requests.of("eviction", "web"))
}

func annotate(t *testing.T, p *corev1.Pod, key, value string) {
	t.Helper()
	old := p.DeepCopy()
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	require.NoError(t, cluster.Patch(t.Context(), p, client.MergeFrom(old)))
}

// aNewPodHasAClockOfItsOwn: a pod does not inherit the resize timeout of an earlier pod of the same
// name (UPSTREAM.md Appendix B 9).
func aNewPodHasAClockOfItsOwn(t *testing.T) {
	ns := namespace(t, "up-clock")
	rules := ownRules(t)
	editRules(t, rules, "pipeline.yaml", "{name: deferredTimeout, type: duration, default: 5m,", "{name: deferredTimeout, type: duration, default: 4s,")
	editRules(t, rules, "pipeline.yaml", "{name: slack, type: duration, default: 1s,", "{name: slack, type: duration, default: 0s,")
	labels := map[string]string{"app": "web"}
	create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(t, small)},
	}})
	u := startUpdater(t, ns, "--rules-dir="+rules)
	// The resize of the first pod is in progress, and the pod is deleted before the timeout.
	first := up(t, ns, "web", 1)
	kubeletSays(t, first, corev1.PodResizePending, corev1.PodReasonDeferred, 0)
	watchedOver(t, ns, "web", "{targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}, "+one("InPlaceOrRecreate")+"}", target("200m", "200Mi"))
	u.cycles(1)
	for _, p := range first {
		require.NoError(t, client.IgnoreNotFound(cluster.Delete(t.Context(), &p)))
	}
	second := become(t, ns, "web", 1, "200m/- 200Mi/-") // from the webhook
	u.cycles(4)

	begin := time.Now()
	kubeletSays(t, second, corev1.PodResizePending, corev1.PodReasonDeferred, 0)
	recommendNow(t, ns, "web", target("300m", "300Mi"))
	leave(t, ns, "web", second)
	require.Greater(t, time.Since(begin), 3*time.Second, "4 s, of which a status drops the fraction of a second")
	requireEvent(t, ns, "EvictedByVPA", "update/deferred-too-long")
	require.Zero(t, u.requests.of("resize", "web"))
}
