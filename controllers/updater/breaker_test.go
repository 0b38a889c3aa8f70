package updater

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// condition is the condition of a VPA; nil when it has none.
func (w *world) condition(name string) *vpav1.VerticalPodAutoscalerCondition {
	w.t.Helper()
	var v vpav1.VerticalPodAutoscaler
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &v))
	require.NotNil(w.t, v.Status.Recommendation, "the recommendation is never touched")
	for i := range v.Status.Conditions {
		if v.Status.Conditions[i].Type == UpdatesHaveNoEffect {
			return &v.Status.Conditions[i]
		}
	}
	return nil
}

// replaced runs a cycle, after which each evicted pod has a successor.
func (w *world) replaced(workload string, change func(*corev1.Pod)) []string {
	asked := w.cycle()
	w.clock.Step(w.Interval)
	for range w.done {
		w.pod(workload, change)
	}
	return asked
}

func TestEvictionsWithoutEffectArePaused(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("vain", 4, vpav1.UpdateModeRecreate)
	w.workload("other", 2, vpav1.UpdateModeOff)
	require.Len(t, w.replaced("vain", nil), 2)
	require.Len(t, w.replaced("vain", nil), 2, "two in a row may be chance")
	require.Nil(t, w.condition("vain"))
	require.Empty(t, w.replaced("vain", nil), "four in a row are none")
	one := w.condition("vain")
	require.Equal(t, corev1.ConditionTrue, one.Status)
	require.Equal(t, "update/successors-unchanged", one.Reason)
	require.Contains(t, one.Message, "replacement pods of Deployment vain keep the resources of the evicted ones")
	require.Empty(t, w.replaced("vain", nil))
	require.Len(t, w.heard("UpdatesHaveNoEffect"), 1)
	require.Nil(t, w.condition("other"))
	require.Equal(t, *one, *w.condition("vain"), "the transition keeps its time")

	w.clock.Step(time.Hour)
	require.Len(t, w.replaced("vain", nil), 1, "one is tried again after an hour")
	require.Empty(t, w.replaced("vain", nil))
	require.Len(t, w.heard("UpdatesHaveNoEffect"), 1)

	w.clock.Step(time.Hour)
	require.Len(t, w.replaced("vain", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amounts("500m", "512Mi") }), 1)
	require.Len(t, w.replaced("vain", nil), 2, "the admission controller works again")
	require.Nil(t, w.condition("vain"))
}

func TestConditionIsRemovedFromVPAsThatNoLongerUpdatePods(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("vain", 4, vpav1.UpdateModeRecreate)
	for range 3 {
		w.replaced("vain", nil)
	}
	require.NotNil(t, w.condition("vain"))
	var v vpav1.VerticalPodAutoscaler
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "vain"}, &v))
	off := vpav1.UpdateModeOff
	v.Spec.UpdatePolicy.UpdateMode = &off
	require.NoError(t, w.WithWatch.Update(t.Context(), &v))
	w.cycle()
	require.Nil(t, w.condition("vain"))
}

func TestForbiddenConditionIsReportedOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("vain", 4, vpav1.UpdateModeRecreate)
	tried := 0
	w.refuse = func(ask, _ string) error {
		if ask == "status" {
			tried++
			return apierrors.NewForbidden(vpav1.GroupVersion.WithResource("verticalpodautoscalers").GroupResource(), "vain", errors.New("no permission"))
		}
		return nil
	}
	for range 5 {
		w.replaced("vain", nil)
	}
	require.Equal(t, 1, tried)
	require.Equal(t, 1, strings.Count(strings.Join(w.logs, "\n"), "no permission to write condition"))
	require.Len(t, w.heard("UpdatesHaveNoEffect"), 1)
}

// The recommender writes the status between the updater's reading and writing.
func TestConditionIsWrittenOnTheCurrentStatus(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("vain", 4, vpav1.UpdateModeRecreate)
	between := 0
	w.refuse = func(ask, _ string) error {
		if ask == "status" && between == 0 {
			between++
			var v vpav1.VerticalPodAutoscaler
			require.NoError(t, w.WithWatch.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "vain"}, &v))
			v.Status.Conditions = []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.RecommendationProvided, Status: corev1.ConditionTrue}}
			require.NoError(t, w.WithWatch.Status().Update(t.Context(), &v))
			return apierrors.NewInvalid(vpav1.GroupVersion.WithKind("VerticalPodAutoscaler").GroupKind(), "vain", nil)
		}
		return nil
	}
	for range 3 {
		w.replaced("vain", nil)
	}
	require.NotNil(t, w.condition("vain"))
	var v vpav1.VerticalPodAutoscaler
	require.NoError(t, w.WithWatch.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "vain"}, &v))
	require.Len(t, v.Status.Conditions, 2, "the recommender's is there still")
}

func TestReplacementsAreMatchedOneToOne(t *testing.T) {
	owner := target.Key{Namespace: "ns", APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-rs"}
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := func(name, cpu string) corev1.Pod {
		yes := true
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-rs", Controller: &yes}}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: amounts(cpu, "1Gi")}}}}}
	}
	live := func(pods []corev1.Pod) map[types.UID]bool {
		out := map[types.UID]bool{}
		for _, p := range pods {
			out[p.UID] = true
		}
		return out
	}
	const timeout = 10 * time.Minute
	var b breaker
	at := begin
	look := func(pods ...corev1.Pod) int {
		at = at.Add(time.Minute)
		b.look(pods, live(pods), at)
		var g facts.Group
		b.tell(owner, &g, at)
		return g.Unchanged
	}
	evict := func(p corev1.Pod) {
		b.evicted(owner, &p, at, timeout)
		b.leaves(p.UID, at)
	}
	a, c, d := pod("a", "1"), pod("c", "1"), pod("d", "2")

	require.Zero(t, look(a, c))
	evict(a)
	require.True(t, b.isGone("a"))
	require.Zero(t, look(a, c), "no successor yet")
	require.Zero(t, look(c, d), "d has other resources")
	require.False(t, b.isGone("a"))
	require.Zero(t, look(c, d, pod("e", "1")), "nobody waits for e")
	evict(c)
	require.Equal(t, 1, look(d, pod("e", "1"), pod("f", "1"), pod("g", "1")), "one of the two that have come counts")
	require.Equal(t, 1, look(d, pod("e", "1"), pod("f", "1"), pod("g", "1")))
	evict(pod("f", "1"))
	at = at.Add(timeout)
	require.Equal(t, 1, look(d, pod("e", "1"), pod("g", "1"), pod("h", "1")), "f has waited for too long")
	evict(pod("g", "1"))
	require.Equal(t, 2, look(d, pod("e", "1"), pod("h", "1"), pod("i", "1000m")), "the same in other words")
	evict(pod("h", "1"))
	require.Zero(t, look(d, pod("e", "1"), pod("i", "1"), pod("j", "1500m")), "another one resets it")
	require.Empty(t, b.of)

	evict(pod("j", "1500m"))
	require.Equal(t, 1, look(d, pod("e", "1"), pod("i", "1"), pod("k", "1500m")))
	require.Zero(t, look(d, pod("e", "1"), pod("i", "1"), pod("k", "1500m"), pod("l", "2")), "somebody deleted one, and it came back changed: the obstacle is gone")
	require.Empty(t, b.of)

	for i := range 3 * maxAwaited {
		evict(pod(fmt.Sprint("m", i), "1"))
	}
	require.Len(t, b.of[owner].awaited, maxAwaited)
	at = at.Add(absentTime)
	look()
	require.Empty(t, b.of)
}

func TestRulesSetTheReplacementTimeout(t *testing.T) {
	w := newWorld(t, withRules(t, policy.Options{Params: map[string]string{"replacements.timeout": "1h"}}))
	w.workload("vain", 4, vpav1.UpdateModeRecreate)
	for range 2 {
		require.Len(t, w.cycle(), 2)
		w.clock.Step(40 * time.Minute)
		for range w.done {
			w.pod("vain", nil)
		}
	}
	require.Empty(t, w.cycle(), "those that came within the hour count")

	w = newWorld(t, withRules(t, policy.Options{Params: map[string]string{"replacements.timeout": "0s"}}))
	w.workload("vain", 4, vpav1.UpdateModeRecreate)
	for range 4 {
		require.Len(t, w.replaced("vain", nil), 2, "no replacement is waited for")
	}
}

// A resize that a node could not carry out is in the spec already, so a successor with that spec is
// one that has come to something.
func TestEvictedPodHadTheResourcesItsNodeAllocated(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: amounts("2", "2Gi")}}},
		Resources:  &corev1.ResourceRequirements{Requests: amounts("2", "2Gi")}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Resources: &corev1.ResourceRequirements{Requests: amounts("1", "2Gi")}}}
	p.Status.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "2Gi")}
	had, asks := resourcesNow(p), resourcesAsked(p)
	require.False(t, sameResources(had, asks))
	require.Equal(t, amounts("1", "2Gi"), had["app"].Requests)
	require.Equal(t, amounts("1", "2Gi"), had[""].Requests)
	p.Status = corev1.PodStatus{}
	require.True(t, sameResources(resourcesNow(p), asks))
	delete(asks, "app")
	require.False(t, sameResources(resourcesNow(p), asks))
}
