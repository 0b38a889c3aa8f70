package integration

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/recommender/oom"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestContainersThatRanOutOfMemoryAreNoticed: the test writes pod statuses and eviction events like
// a kubelet, and the observer sees both through a real cache.
func TestContainersThatRanOutOfMemoryAreNoticed(t *testing.T) {
	ns, other := namespace(t, "oom-noticed"), namespace(t, "oom-elsewhere")
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	for name, memory := range map[string]string{"app": "128Mi", "side": "64Mi"} {
		list := corev1.ResourceList{"memory": resource.MustParse(memory)}
		web.Spec.Containers = append(web.Spec.Containers, corev1.Container{Name: name, Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: list}})
	}
	elsewhere := web.DeepCopy()
	elsewhere.Namespace = other
	create(t, web, elsewhere)
	running(t, ns, 1)
	running(t, other, 1)

	observed, err := cache.New(cluster.Config, cache.Options{Scheme: cluster.Scheme(), ByObject: map[client.Object]cache.ByObject{&corev1.Event{}: oom.Events()}})
	require.NoError(t, err)
	here := func(namespace string) bool { return namespace == ns }
	observer := oom.NewObserver(logr.Discard(), here)
	require.NoError(t, observer.Register(t.Context(), observed, true))
	go func() { _ = observed.Start(t.Context()) }()
	require.True(t, observed.WaitForCacheSync(t.Context()))

	kubelet := func(pod *corev1.Pod, container string, change func(*corev1.ContainerStatus)) {
		t.Helper()
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := cluster.Get(t.Context(), keyOf(pod), pod); err != nil {
				return err
			}
			for i := range pod.Status.ContainerStatuses {
				if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
					change(s)
				}
			}
			return cluster.Status().Update(t.Context(), pod)
		}))
	}
	start := time.Now().Truncate(time.Second)
	at := func(seconds int) metav1.Time { return metav1.NewTime(start.Add(time.Duration(seconds) * time.Second)) }
	killed := func(seconds int) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", StartedAt: at(0), FinishedAt: at(seconds)}}
	}
	runs := func(seconds int) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(seconds)}}
	}
	var got []model.OOM
	drained := func(what string, count int) {
		t.Helper()
		hang.Eventually(t, what, func(context.Context) (bool, error) {
			got = append(got, observer.Drain()...)
			return len(got) == count, nil
		})
	}
	// Wait for each change: an informer may merge two of them.
	kubelet(elsewhere, "app", func(s *corev1.ContainerStatus) { s.State = killed(1) })
	kubelet(web, "app", func(s *corev1.ContainerStatus) { s.State = killed(1) })
	drained("the first kill", 1)
	kubelet(web, "app", func(s *corev1.ContainerStatus) {
		s.State, s.LastTerminationState, s.RestartCount = runs(2), killed(1), 1
	})
	kubelet(web, "side", func(s *corev1.ContainerStatus) {
		s.State, s.LastTerminationState, s.RestartCount = runs(3), killed(2), 1
	})
	drained("the kill before the restart", 2)
	event := func(name, reason string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{
				"offending_containers": "app,side", "offending_containers_usage": "300Mi,70Mi", "starved_resource": "memory"}},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: ns, Name: "web", UID: web.UID},
			Reason:         reason, Type: corev1.EventTypeWarning, Message: "The node was low on resource: memory.",
			FirstTimestamp: at(4), LastTimestamp: at(4), Count: 1,
		}
	}
	eviction := event("web.evicted", "Evicted")
	create(t, event("web.killing", "Killing"), eviction)
	eviction.Count = 2
	require.NoError(t, cluster.Update(t.Context(), eviction))
	drained("the eviction", 4)

	for i := range got {
		got[i].At = got[i].At.UTC()
	}
	id := model.PodID{Namespace: ns, Name: "web"}
	require.Equal(t, []model.OOM{
		{Pod: id, Container: "app", Memory: 128 << 20, At: at(1).UTC()},
		{Pod: id, Container: "side", Memory: 64 << 20, At: at(2).UTC()},
		{Pod: id, Container: "app", Memory: 300 << 20, At: eviction.CreationTimestamp.UTC()},
		{Pod: id, Container: "side", Memory: 70 << 20, At: eviction.CreationTimestamp.UTC()},
	}, got)

	var cached corev1.EventList
	require.NoError(t, observed.List(t.Context(), &cached, client.InNamespace(ns)))
	require.Len(t, cached.Items, 1, "other events are not even asked for")
	require.Empty(t, cached.Items[0].Message)

	late := oom.NewObserver(logr.Discard(), here)
	require.NoError(t, late.Register(t.Context(), observed, true), "a cache that runs already")
	drainedLate := 0
	hang.Eventually(t, "the eviction and the kills of before the start", func(context.Context) (bool, error) {
		drainedLate += len(late.Drain())
		return drainedLate == 4, nil
	})
}

// oomsOfBeforeTheFirstCycleCount: OOM kills while no recommender runs, about the time of the first
// cycle of a process, which is its start, and between two leaders. There is no live usage, so a memory target proves an OOM.
func oomsOfBeforeTheFirstCycleCount(t *testing.T) {
	ns := namespace(t, "rec-oom")
	names := []string{"down", "first", "gap", "well"}
	for _, name := range names {
		create(t, unused(ns, name, "app"), vpa(ns, name, vpav1.UpdateModeOff))
	}
	run(t, ns, len(names))
	elect := append(leading, "--recommender-interval=5s", "--leader-elect-resource-name=rec-oom", "--leader-elect-resource-namespace="+ns)
	bumped := func(name string) {
		t.Helper()
		hang.Eventually(t, "the OOM of "+name+" to count", func(ctx context.Context) (bool, error) {
			var v vpav1.VerticalPodAutoscaler
			if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &v); err != nil || v.Status.Recommendation == nil {
				return false, err
			}
			list := v.Status.Recommendation.ContainerRecommendations
			return len(list) == 1 && bytesOf(list[0].Target) == targetFor(1200<<20) && len(list[0].Target) == 1, nil
		})
	}
	killed(t, ns, "down")
	leads := startRecommender(t, ns, elect...)
	killed(t, ns, "first")
	bumped("down")
	bumped("first")

	standsBy := startRecommender(t, ns, elect...)
	require.Zero(t, standsBy.value(cyclesOf))
	leads.stop()
	killed(t, ns, "gap")
	bumped("gap")
	nothingKnown(t, ns, "well", "app")
	for _, name := range names[:3] {
		bumped(name)
	}
	require.Positive(t, standsBy.value(cyclesOf))
}
