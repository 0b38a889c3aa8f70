package updater

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestNewPodsThatAreRefusedStopEvictions: a LimitRange refuses what admission makes of new pods.
func TestNewPodsThatAreRefusedStopEvictions(t *testing.T) {
	const said = `pods "web-" is forbidden: maximum cpu usage per Container is 2, but limit is 150`
	w := newWorld(t, nil)
	w.workload("web", 8, vpav1.UpdateModeRecreate)
	w.workload("fine", 4, vpav1.UpdateModeRecreate)
	says := func(conditions ...appsv1.ReplicaSetCondition) {
		t.Helper()
		var rs appsv1.ReplicaSet
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-rs"}, &rs))
		rs.Status.Conditions = conditions
		require.NoError(t, w.WithWatch.Status().Update(t.Context(), &rs))
	}
	w.clock.Step(w.Interval)
	require.Len(t, w.cycle(), 4+2)
	failure := appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: said, LastTransitionTime: metav1.NewTime(w.clock.Now())}
	says(failure)
	for range 2 {
		w.pod("web", changed)
		w.pod("fine", changed)
	}
	w.clock.Step(w.Interval)
	require.Len(t, w.cycle(), 2, "one group fails, the other does not")
	condition := w.condition("web")
	require.Equal(t, "eviction/new-pods-refused", condition.Reason)
	require.Equal(t, "new pods of Deployment web are refused, so evictions are paused: "+said, condition.Message)
	require.Nil(t, w.condition("fine"))
	w.clock.Step(time.Hour)
	w.cycle()
	require.Len(t, w.heard("UpdatesHaveNoEffect"), 1, "once while it lasts")
	require.Contains(t, w.heard("UpdatesHaveNoEffect")[0], said)

	failure.Status = corev1.ConditionFalse
	says(failure)
	for range 2 {
		w.pod("web", changed)
	}
	w.clock.Step(w.Interval)
	require.NotEmpty(t, w.cycle())
	require.Nil(t, w.condition("web"))
}

// TestEvictedPodsThatAreNotReplacedStopEvictions: a StatefulSet does not say that its pods are refused.
func TestEvictedPodsThatAreNotReplacedStopEvictions(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 10, vpav1.UpdateModeRecreate)
	w.clock.Step(w.Interval)
	require.Len(t, w.cycle(), 5)
	for range 3 {
		w.pod("web", changed)
	}
	w.clock.Step(w.Interval)
	require.Len(t, w.cycle(), 3, "two are missing, since this cycle")
	w.clock.Step(w.Interval)
	require.Empty(t, w.cycle())
	require.Equal(t, "eviction/replacements-missing", w.condition("web").Reason)
	require.Equal(t, "evicted pods of Deployment web were not replaced (5 missing since 2026-01-01T12:02:00Z), so evictions are paused: its events FailedCreate say why", w.condition("web").Message)
	w.restart()
	require.Empty(t, w.cycle(), "another process reads it back")
	require.Equal(t, "eviction/replacements-missing", w.condition("web").Reason)
	for range 5 {
		w.pod("web", changed)
	}
	w.clock.Step(w.Interval)
	require.NotEmpty(t, w.cycle())
	require.Nil(t, w.condition("web"))
}

// changed makes a pod as admission does.
func changed(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests = amounts("500m", "512Mi")
}
