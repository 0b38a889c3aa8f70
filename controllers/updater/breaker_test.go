package updater

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// condition is the condition UpdatesHaveNoEffect of a VPA; nil = none.
func (w *world) condition(name string) *vpav1.VerticalPodAutoscalerCondition {
	w.t.Helper()
	var v vpav1.VerticalPodAutoscaler
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &v))
	require.NotNil(w.t, v.Status.Recommendation, "the updater never writes the recommendation")
	for i := range v.Status.Conditions {
		if v.Status.Conditions[i].Type == vpav1.UpdatesHaveNoEffect {
			return &v.Status.Conditions[i]
		}
	}
	return nil
}

// replaced runs a cycle, and then replaces each evicted pod.
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
	require.Len(t, w.replaced("vain", nil), 2, "two unchanged replacements in a row do not pause evictions")
	require.Nil(t, w.condition("vain"))
	require.Empty(t, w.replaced("vain", nil), "four do")
	one := w.condition("vain")
	require.Equal(t, corev1.ConditionTrue, one.Status)
	require.Equal(t, "eviction/successors-unchanged", one.Reason)
	require.Contains(t, one.Message, "replacement pods of Deployment vain keep the resources of the evicted ones")
	require.Empty(t, w.replaced("vain", nil))
	require.Len(t, w.heard("UpdatesHaveNoEffect"), 1)
	require.Nil(t, w.condition("other"))
	require.Equal(t, *one, *w.condition("vain"), "the transition time stays")

	w.restart()
	require.Empty(t, w.replaced("vain", nil), "another process reads it back")
	require.Equal(t, *one, *w.condition("vain"), "the count, too")
	w.clock.Step(time.Hour)
	require.Len(t, w.replaced("vain", nil), 1, "one is tried again after an hour")
	require.Empty(t, w.replaced("vain", nil))
	require.Contains(t, w.condition("vain").Message, "(5 in a row, the last evicted at 2026-01-01T13:0")
	require.Len(t, w.heard("UpdatesHaveNoEffect"), 2, "each process says so once")

	w.clock.Step(time.Hour)
	require.Len(t, w.replaced("vain", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amounts("500m", "512Mi") }), 1)
	require.Len(t, w.replaced("vain", nil), 2, "the admission controller works again")
	require.Nil(t, w.condition("vain"))
}

// TestADeletedPodThatComesBackChangedEndsThePause: the cause is gone, also where an earlier process counted.
func TestADeletedPodThatComesBackChangedEndsThePause(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		w := newWorld(t, nil)
		w.workload("vain", 4, vpav1.UpdateModeRecreate)
		for range 3 {
			w.replaced("vain", nil)
		}
		require.NotNil(t, w.condition("vain"))
		if restarts {
			w.restart()
			require.Empty(t, w.cycle())
		}
		var pods corev1.PodList
		require.NoError(t, w.List(t.Context(), &pods))
		require.NoError(t, w.WithWatch.Delete(t.Context(), &pods.Items[0]))
		w.pod("vain", changed)
		require.NotEmpty(t, w.cycle(), restarts)
		require.Nil(t, w.condition("vain"), restarts)
	}
}

// TestAnOutageOfAdmissionExplainsUnchangedReplacements: a webhook that hangs leaves pods unchanged before its lease expires. Once it
// is back, nothing is left to wait for.
func TestAnOutageOfAdmissionExplainsUnchangedReplacements(t *testing.T) {
	var down error
	w := newWorld(t, func(o *Options) { o.Admission = func(context.Context) error { return down } })
	w.workload("web", 4, vpav1.UpdateModeRecreate)
	require.Len(t, w.replaced("web", nil), 2)
	require.Len(t, w.replaced("web", nil), 2)
	require.Empty(t, w.replaced("web", nil), "the lease has not expired yet")
	require.NotNil(t, w.condition("web"))
	down = errors.New("the lease has expired")
	require.Empty(t, w.cycle())
	down = nil
	require.Len(t, w.cycle(), 2)
	require.Nil(t, w.condition("web"))
	down = errors.New("the lease has expired")
	require.Empty(t, w.cycle())
	for range 2 {
		w.pod("web", nil)
	}
	down = nil
	require.Len(t, w.replaced("web", nil), 2, "replacements that came during an outage do not count")
	require.Len(t, w.replaced("web", nil), 2, "those are the first two")
	require.Empty(t, w.replaced("web", nil), "four count")
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

// The recommender writes the status between the updater's read and write.
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
	require.Len(t, v.Status.Conditions, 2, "the recommender's condition stays")
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
	require.Empty(t, w.cycle(), "replacements within the hour count")

	w = newWorld(t, withRules(t, policy.Options{Params: map[string]string{"replacements.timeout": "0s"}}))
	w.workload("vain", 4, vpav1.UpdateModeRecreate)
	for range 4 {
		require.Len(t, w.replaced("vain", nil), 2, "no replacement is waited for")
	}
}
