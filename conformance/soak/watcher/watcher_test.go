package watcher

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func key2(name string) key { return key{Namespace: "shop", Name: name} }

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{App: "web"}}
}

func running(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name), Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", Controller: ptr.To(true)}}
	return p
}

func owner(mode vpav1.UpdateMode, minReplicas *int32) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: meta("web")}
	v.Spec.TargetRef = &autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}
	v.Spec.UpdatePolicy = &vpav1.PodUpdatePolicy{UpdateMode: &mode, MinReplicas: minReplicas}
	return v
}

// world is a judge of a workload with pods a, b, c, … that run from the beginning. celvpa knows what is older than 10 s.
func world(replicas int, v *vpav1.VerticalPodAutoscaler) *Judge {
	j := &Judge{History: NewHistory(), Rules: Rules{MinReplicas: 2, Tolerance: 0.5}, Known: func(t time.Time) time.Time { return t.Add(-10 * time.Second) }}
	j.Saw(noon, &appsv1.ReplicaSet{ObjectMeta: meta("web-1"), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(replicas))}})
	if v != nil {
		j.Saw(noon, v)
	}
	for i := range replicas {
		j.Saw(noon, running(string(rune('a'+i))))
	}
	return j
}

// evict has celvpa evict a pod, as watches and the audit log show.
func (j *Judge) evict(seconds float64, name string) []string {
	j.Gone(at(seconds+0.01), running(name))
	return j.Judge(Act{At: at(seconds), Pod: key2(name)})
}

func TestEvictionsWithinTheBudgetAreRight(t *testing.T) {
	j := world(4, owner(vpav1.UpdateModeRecreate, nil))
	require.Empty(t, j.evict(20, "a"))
	require.Empty(t, j.evict(20.1, "b"))
	j.Saw(at(22), running("e"))
	require.Empty(t, j.evict(22.5, "c"))
}

func TestEvictionsBeyondTheBudgetAreWrong(t *testing.T) {
	j := world(4, owner(vpav1.UpdateModeRecreate, nil))
	require.Empty(t, j.evict(20, "a"))
	require.Empty(t, j.evict(20.1, "b"))
	require.Equal(t, []string{"eviction of pod shop/c at 12:00:20.200 of workload web: 2 of 4 replicas ran undisturbed, of which 2 may be disrupted at a time"}, j.evict(20.2, "c"))
	require.NotEmpty(t, j.evict(28, "d"), "own evictions are not forgotten before news of them arrives")

	single := world(2, owner(vpav1.UpdateModeRecreate, nil))
	require.Empty(t, single.evict(20, "a"), "one at a time, even where the tolerance is less than one")
	require.Len(t, single.evict(21, "b"), 1)
}

func TestWhatOthersDidALittleBeforeMayBeUnknown(t *testing.T) {
	lately := world(4, owner(vpav1.UpdateModeRecreate, nil))
	lately.Gone(at(15), running("a"))
	lately.Gone(at(15), running("b"))
	require.Empty(t, lately.evict(20, "c"))
	long := world(4, owner(vpav1.UpdateModeRecreate, nil))
	long.Gone(at(5), running("a"))
	long.Gone(at(5), running("b"))
	require.Len(t, long.evict(20, "c"), 1)
}

func TestAPodThatHasNotStartedCostsNothing(t *testing.T) {
	j := world(2, owner(vpav1.UpdateModeRecreate, nil))
	j.Gone(at(1), running("a"))
	waiting := running("c")
	waiting.Status.Phase = corev1.PodPending
	j.Saw(at(2), waiting)
	require.Empty(t, j.evict(20, "c"))
	require.Len(t, j.evict(35, "b"), 2, "too few live pods, and too few that run")
}

func TestModesAndMinReplicasAreKeptTo(t *testing.T) {
	for mode, evicts := range map[vpav1.UpdateMode]bool{vpav1.UpdateModeOff: false, vpav1.UpdateModeInitial: false, vpav1.UpdateModeInPlace: false,
		vpav1.UpdateModeInPlaceOrRecreate: true, vpav1.UpdateModeRecreate: true, vpav1.UpdateModeAuto: true} {
		require.Equal(t, evicts, len(world(4, owner(mode, nil)).evict(20, "a")) == 0, mode)
	}
	require.Equal(t, []string{"eviction of pod shop/a at 12:00:20.000 of workload web: it has no VPA"}, world(4, nil).evict(20, "a"))
	require.Equal(t, []string{"eviction of pod shop/a at 12:00:20.000 of workload web: it had 4 live pods, fewer than minReplicas 5"},
		world(4, owner(vpav1.UpdateModeRecreate, ptr.To(int32(5)))).evict(20, "a"))
	require.Empty(t, world(1, owner(vpav1.UpdateModeRecreate, ptr.To(int32(1)))).evict(20, "a"))

	changed := world(4, owner(vpav1.UpdateModeRecreate, nil))
	changed.Saw(at(15), owner(vpav1.UpdateModeOff, nil))
	require.Empty(t, changed.evict(20, "a"), "the change may not be known yet")
	require.Len(t, changed.evict(30, "b"), 1)
}

func TestPodDisruptionBudgetsAreKeptTo(t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta("web"), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{App: "web"}}, MinAvailable: ptr.To(intstr.FromInt32(4))}}
	j := world(4, owner(vpav1.UpdateModeRecreate, nil))
	j.Saw(noon, budget)
	require.Equal(t, []string{"eviction of pod shop/a at 12:00:20.000 of workload web: PodDisruptionBudget web wants 4 pods, and 4 were healthy"}, j.evict(20, "a"))
	budget.Spec.MinAvailable = ptr.To(intstr.FromInt32(3))
	j = world(4, owner(vpav1.UpdateModeRecreate, nil))
	j.Saw(noon, budget)
	require.Empty(t, j.evict(20, "a"))
}

func TestResizesStayWithinModes(t *testing.T) {
	resize := func(j *Judge) []string { return j.Judge(Act{At: at(20), Resize: true, Pod: key2("a")}) }
	require.Empty(t, resize(world(2, owner(vpav1.UpdateModeInPlace, nil))))
	require.Equal(t, []string{"resize of pod shop/a at 12:00:20.000 of workload web: no VPA of it resizes; modes: Recreate"},
		resize(world(2, owner(vpav1.UpdateModeRecreate, nil))))
	boosted := world(2, owner(vpav1.UpdateModeRecreate, nil))
	pod := running("a")
	pod.Annotations = map[string]string{"vpaCpuStartupBoost/app": "{}"}
	boosted.Saw(noon, pod)
	require.Empty(t, resize(boosted), "the end of a boost")
}

func TestWhatIsNotKnownIsWrong(t *testing.T) {
	j := world(1, owner(vpav1.UpdateModeRecreate, nil))
	require.Equal(t, []string{"eviction of pod shop/z at 12:00:20.000: the watcher has not seen this pod"}, j.Judge(Act{At: at(20), Pod: client.ObjectKey{Namespace: "shop", Name: "z"}}))
}
