package updater

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestResizesGoOnWithoutAdmissionAndEvictionsDoNot(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Admission = func(context.Context) error { return errors.New("nobody there") } })
	w.workload("flat", 2, vpav1.UpdateModeRecreate)
	w.workload("tall", 2, vpav1.UpdateModeInPlaceOrRecreate)
	before := testutil.ToFloat64(invalidStatus.WithLabelValues("error"))
	require.Equal(t, []string{"resize tall-03"}, w.cycle())
	require.Equal(t, before+1, testutil.ToFloat64(invalidStatus.WithLabelValues("error")))
	w.refusing("resize", forbidden("no", ""))
	w.pod("tall", nil)
	w.cycle()
	require.False(t, slices.ContainsFunc(w.asked, func(ask string) bool { return strings.HasPrefix(ask, "evict") }), "a refused resize does not cause an eviction")
}

func TestARefusedResizeIsFollowedByAnEviction(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 3, vpav1.UpdateModeInPlaceOrRecreate)
	w.refuse = func(ask, name string) error {
		if ask == "resize" {
			return apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New("pod update requires features X which are not available on node"))
		}
		return nil
	}
	require.Equal(t, []string{"resize web-01", "evict web-01"}, w.cycle())
	require.Equal(t, []string{"evict web-01"}, w.done)
	require.Len(t, w.heard("ResizeRefused"), 1)
	require.Contains(t, w.heard("ResizeRefused")[0], "not available on node (update/resize)")
	w.pod("web", nil)
	w.clock.Step(w.Interval)
	require.Equal(t, []string{"resize web-02", "evict web-02"}, w.cycle())
	require.Len(t, w.heard("ResizeRefused"), 1, "the same refusal of another pod is not reported again")
	require.Contains(t, w.heard("EvictedByVPA")[0], "(update/resize-refused)")
}

// TestAResizeThatIsChangedOnItsWayIsRefused: regression, the pod was called resized in each cycle, and never was.
func TestAResizeThatIsChangedOnItsWayIsRefused(t *testing.T) {
	for mode, want := range map[vpav1.UpdateMode][]string{
		vpav1.UpdateModeInPlaceOrRecreate: {"resize web-01", "evict web-01"},
		vpav1.UpdateModeInPlace:           {"resize web-01"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t, nil, "InPlace")
			w.workload("web", 2, mode)
			w.tamper = func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("200Mi")
			}
			require.Equal(t, want, w.cycle()[:len(want)])
			require.Empty(t, w.heard("InPlaceResizedByVPA"))
			require.Contains(t, w.heard("ResizeRefused")[0], "a mutating webhook or policy changes the resize: requests.memory of app is 200Mi in the answer, not 512Mi")
			if mode == vpav1.UpdateModeInPlace {
				asked := 0
				for range 60 {
					w.clock.Step(w.Interval)
					asked += len(w.cycle())
				}
				require.LessOrEqual(t, asked, 20, "two pods, each ten times: their back-off is 10 minutes at most")
			}
		})
	}
}

func TestTransientRefusalsAreWaitedOut(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 3, vpav1.UpdateModeInPlaceOrRecreate)
	for _, err := range []error{forbidden("exceeded quota: q, requested: cpu=1", ""), errors.New("connection refused"), context.DeadlineExceeded} {
		w.refusing("resize", err)
		asked := w.cycle()
		require.NotEmpty(t, asked)
		for _, ask := range asked {
			require.Contains(t, ask, "resize")
		}
		require.Empty(t, w.done)
		w.clock.Step(w.Interval)
	}
}

func TestPodWithoutAnnotationsStillCountsAsResized(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("unmarked", 2, vpav1.UpdateModeInPlaceOrRecreate)
	w.refusing("annotate", errors.New("no"))
	require.Equal(t, []string{"resize unmarked-01"}, w.cycle())
	require.Len(t, w.heard("InPlaceResizedByVPA"), 1)
	require.Len(t, w.heard("AnnotationFailed"), 1)
	require.Zero(t, testutil.ToFloat64(failedResizes.WithLabelValues("1", "unmarked", "ns", "InPlaceUpdateError")))
	annotations := func() map[string]string {
		var pod corev1.Pod
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "unmarked-01"}, &pod))
		return pod.Annotations
	}
	require.Empty(t, annotations())

	w.refusing("resize", apierrors.NewTooManyRequests("later", 1)) // of the other pod
	w.clock.Step(w.Interval)
	w.cycle()
	require.Equal(t, map[string]string{"vpaUpdates": "Pod resources updated by unmarked: container 0: cpu request, memory request", "vpaInPlaceUpdated": "true"}, annotations(), "it is made up for")
	require.Zero(t, sizeOf(&w.unmarked))
	require.Len(t, w.heard("AnnotationFailed"), 1)
}

// TestForbiddenAnnotationIsNotRetried, nor one of a deleted pod.
func TestForbiddenAnnotationIsNotRetried(t *testing.T) {
	for name, after := range map[string]error{"forbidden": forbidden(`cannot patch resource "pods"`, ""), "gone": apierrors.NewNotFound(corev1.Resource("pods"), "web-01")} {
		w := newWorld(t, nil)
		w.workload("web", 2, vpav1.UpdateModeInPlaceOrRecreate)
		w.refusing("annotate", errors.New("not now"))
		require.Equal(t, []string{"resize web-01"}, w.cycle(), name)
		require.Equal(t, 1, sizeOf(&w.unmarked), name)
		tries := 0
		w.refuse = func(ask, _ string) error {
			if ask == "annotate" {
				tries++
				return after
			}
			return apierrors.NewTooManyRequests("later", 1)
		}
		for range 3 {
			w.clock.Step(w.Interval)
			w.cycle()
		}
		require.Equal(t, 1, tries, name)
		require.Zero(t, sizeOf(&w.unmarked), name)
	}
}

// TestResizeUpdatesOldAnnotations: what admission wrote when the pod was created is no longer true.
func TestResizeUpdatesOldAnnotations(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 0, vpav1.UpdateModeInPlaceOrRecreate)
	for range 2 {
		w.pod("web", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"vpaUpdates": "Pod resources updated by old: container 0: memory capped to maxAllowed, memory request", "vpaObservedContainers": "app", "other": "x"}
		})
	}
	var rs appsv1.ReplicaSet
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-rs"}, &rs))
	rs.Spec.Replicas = ptr.To(int32(2))
	require.NoError(t, w.Update(t.Context(), &rs))
	require.Equal(t, []string{"resize web-01"}, w.cycle())
	var pod corev1.Pod
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-01"}, &pod))
	require.Equal(t, map[string]string{
		"vpaUpdates":            "Pod resources updated by web: container 0: cpu request, memory request",
		"vpaInPlaceUpdated":     "true",
		"vpaObservedContainers": "app", "other": "x",
	}, pod.Annotations)
}

// Regression: an API server that has not cached the pod's node refuses its resize, which was
// counted as possibly carried out. The pod is first in every cycle, so the others of its group
// never had their turn.
func TestTransientRefusalDoesNotUseTheBudget(t *testing.T) {
	for _, err := range []error{forbidden(`failed to get node "n": node "n" not found`, ""), apierrors.NewTooManyRequests("later", 1)} {
		w := newWorld(t, nil)
		w.workload("web", 3, vpav1.UpdateModeInPlaceOrRecreate)
		w.refuse = func(ask, name string) error {
			if ask == "resize" && name == "web-01" {
				return err
			}
			return nil
		}
		require.Equal(t, []string{"resize web-01", "resize web-02"}, w.cycle())
	}
}
