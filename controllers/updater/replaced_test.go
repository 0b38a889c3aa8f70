package updater

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// says writes a resize condition into a pod's status. The node has granted 100m and 128Mi, with
// limits of twice that.
func (w *world) says(name string, condition corev1.PodCondition, message string) {
	w.t.Helper()
	pod := w.podNamed(name)
	condition.Message, condition.ObservedGeneration = message, pod.Generation
	condition.LastTransitionTime = metav1.NewTime(w.clock.Now())
	pod.Status.Conditions = []corev1.PodCondition{condition}
	require.NoError(w.t, w.WithWatch.Status().Update(w.t.Context(), pod))
}

var failed = corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError}

const belowUsage = `cannot decrease memory limits: attempting to set container "app" memory limit (104857600) below current usage (150000000)`

// wedged is a workload of two pods that run with limits of 200m and 512Mi. A resize of the first
// one to 50Mi, with a limit of 100Mi, is below its usage.
func wedged(t *testing.T) *world {
	w := newWorld(t, nil, "InPlace")
	w.workload("web", 2, vpav1.UpdateModeInPlace)
	w.recommend("web", "100m", "50Mi")
	bounds(w, "web", amounts("50m", "40Mi"), amounts("200m", "60Mi"))
	for _, name := range []string{"web-01", "web-02"} {
		p := w.podNamed(name)
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts("100m", "256Mi"), Limits: amounts("200m", "512Mi")}
		granted := p.Spec.Containers[0].Resources.DeepCopy()
		require.NoError(t, w.WithWatch.Update(t.Context(), p))
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Resources: granted}}
		require.NoError(t, w.WithWatch.Status().Update(t.Context(), p))
	}
	require.Equal(t, []string{"resize web-01"}, w.cycle())
	require.Equal(t, "100Mi", limit(w, "web-01"))
	w.says("web-01", failed, belowUsage)
	w.refuse = func(_, name string) error { // the other one is not of interest
		if name == "web-02" {
			return apierrors.NewConflict(corev1.Resource("pods"), name, errors.New("not of interest"))
		}
		return nil
	}
	w.clock.Step(w.Interval)
	return w
}

func bounds(w *world, name string, lower, upper corev1.ResourceList) {
	w.t.Helper()
	var v vpav1.VerticalPodAutoscaler
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &v))
	r := &v.Status.Recommendation.ContainerRecommendations[0]
	r.LowerBound, r.UpperBound = lower, upper
	require.NoError(w.t, w.WithWatch.Status().Update(w.t.Context(), &v))
}

func limit(w *world, name string) string {
	return w.podNamed(name).Spec.Containers[0].Resources.Limits.Memory().String()
}

// asks runs some cycles, and returns those in which the first pod was sent a resize.
func (w *world) asks(cycles int) (sent []int) {
	for i := range cycles {
		for _, asked := range w.cycle() {
			if asked == "resize web-01" {
				sent = append(sent, i)
			}
		}
		w.clock.Step(w.Interval)
	}
	return sent
}

// Regression: in mode InPlace the updater waited forever for a resize to a memory limit below
// usage, even after the recommendation had risen and a new resize would have succeeded.
func TestAMemoryLimitBelowUsageIsReplacedByAHigherOne(t *testing.T) {
	w := wedged(t)
	require.Empty(t, w.asks(90), "the same is wanted")
	w.recommend("web", "100m", "45Mi")
	require.Empty(t, w.asks(90), "less is recommended")

	w.recommend("web", "100m", "60Mi")
	require.Equal(t, []int{0}, w.asks(1), "more is recommended")
	require.Equal(t, "120Mi", limit(w, "web-01"))
	require.Contains(t, w.heard("InPlaceResizedByVPA")[1], "(update/resize-replaced)")
	w.says("web-01", failed, belowUsage)
	require.Empty(t, w.asks(10), "once for each change of what is wanted")
	w.recommend("web", "100m", "70Mi")
	require.Equal(t, []int{0}, w.asks(9))
	w.says("web-01", failed, belowUsage)
	w.recommend("web", "100m", "80Mi")
	require.Equal(t, []int{1}, w.asks(4), "ten minutes after the second one")
	require.Equal(t, "160Mi", limit(w, "web-01"))
	require.Empty(t, w.heard("EvictedByVPA"))
}

// Regression: in mode InPlace more CPU waited, perhaps forever, for usage of memory to fall.
func TestCPUDoesNotWaitForAMemoryLimitBelowUsage(t *testing.T) {
	w := wedged(t)
	has := func() string {
		r := w.podNamed("web-01").Spec.Containers[0].Resources
		return r.Requests.Cpu().String() + "/" + r.Limits.Cpu().String() + " " + r.Requests.Memory().String() + "/" + r.Limits.Memory().String()
	}
	completed := func() {
		pod := w.podNamed("web-01")
		pod.Status.Conditions, pod.Status.ContainerStatuses[0].Resources = nil, pod.Spec.Containers[0].Resources.DeepCopy()
		require.NoError(t, w.WithWatch.Status().Update(t.Context(), pod))
	}
	w.recommend("web", "150m", "50Mi")
	bounds(w, "web", amounts("120m", "40Mi"), amounts("200m", "60Mi"))
	require.Equal(t, []int{0}, w.asks(1))
	require.Equal(t, "150m/300m 256Mi/512Mi", has(), "memory is what the node has given")
	require.Contains(t, w.heard("InPlaceResizedByVPA")[1], "(update/resize-cpu-first)")
	completed()

	require.Equal(t, []int{0}, w.asks(1), "memory is wanted still")
	require.Equal(t, "150m/300m 50Mi/100Mi", has())
	w.says("web-01", failed, belowUsage)
	require.Empty(t, w.asks(90), "it alone has to wait")
	w.recommend("web", "150m", "45Mi")
	require.Empty(t, w.asks(90))
	require.Empty(t, w.heard("EvictedByVPA"))
}

// The wanted resources are in the pod's spec, the kubelet's answer is in its status: a restart
// loses neither.
func TestRestartedUpdaterKnowsPendingResizes(t *testing.T) {
	w := wedged(t)
	w.Updater = New(w.Options)
	require.Empty(t, w.asks(5), "the same is wanted")
	w.recommend("web", "100m", "60Mi")
	w.Updater = New(w.Options)
	require.Equal(t, []int{0}, w.asks(5))
}

// A recommendation that has risen back to what the pod runs with reverts the resize: otherwise the
// kubelet would apply it as soon as usage dips.
func TestObsoleteResizeIsReverted(t *testing.T) {
	w := wedged(t)
	w.recommend("web", "100m", "256Mi")
	bounds(w, "web", amounts("50m", "200Mi"), amounts("200m", "1Gi"))
	require.Equal(t, []int{0}, w.asks(5))
	require.Equal(t, "512Mi", limit(w, "web-01"))
	w.says("web-01", corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}, "")
	require.Empty(t, w.asks(5))
}

func TestADeferredResizeIsReplacedByASmallerOne(t *testing.T) {
	w := newWorld(t, nil, "InPlace")
	w.workload("web", 2, vpav1.UpdateModeInPlace)
	require.Equal(t, []int{0}, w.asks(1))
	granted := w.podNamed("web-01")
	granted.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Resources: &corev1.ResourceRequirements{Requests: amounts("100m", "128Mi")}}}
	require.NoError(t, w.WithWatch.Status().Update(t.Context(), granted))
	deferred := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}
	w.says("web-01", deferred, "Node didn't have enough resource: cpu, requested: 500, used: 1850, capacity: 2000")
	w.clock.Step(time.Minute)
	require.Empty(t, w.asks(9))
	w.recommend("web", "600m", "400Mi")
	require.Empty(t, w.asks(9), "it is CPU that the node lacks")
	w.recommend("web", "300m", "600Mi")
	require.Equal(t, []int{0}, w.asks(9))
	require.Equal(t, "300m", w.podNamed("web-01").Spec.Containers[0].Resources.Requests.Cpu().String())
}
