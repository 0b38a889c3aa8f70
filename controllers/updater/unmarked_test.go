package updater

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// slowMarks is a webhook for pods, which does not select pods/resize.
type slowMarks struct {
	mu    sync.Mutex
	hangs bool // answers nothing until the client gives up
	asked []string
}

func (s *slowMarks) patch(ctx context.Context, _ client.WithWatch, pod client.Object, _ client.Patch, _ ...client.PatchOption) error {
	s.mu.Lock()
	s.asked = append(s.asked, pod.GetName())
	hangs := s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	return apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com"`))
}

// round is the pods that were to be annotated since the last round.
func (s *slowMarks) round() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = nil
	slices.Sort(out)
	return out
}

func worldWithSlowMarks(t *testing.T) (*world, *slowMarks) {
	marks := &slowMarks{}
	w := newWorld(t, func(o *Options) {
		o.Interval = 2 * time.Second // so short that an annotation that hangs takes the whole share of them all
		o.Actuator.Client = interceptor.NewClient(o.Client.(client.WithWatch), interceptor.Funcs{Patch: marks.patch})
	})
	w.workload("web", 12, vpav1.UpdateModeInPlaceOrRecreate)
	require.Len(t, w.cycle(), 6)
	require.Len(t, marks.round(), 6)
	w.refusing("resize", apierrors.NewTooManyRequests("later", 1)) // of the other pods
	marks.hangs = true
	return w, marks
}

// Regression: the annotations of resized pods came before the VPAs of a cycle, one after the other.
// A webhook for pods that hangs took the whole cycle, and the next one.
func TestHangingAnnotationsLeaveTheCycleToOtherPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := worldWithSlowMarks(t)
		w.workload("other", 2, vpav1.UpdateModeRecreate)
		w.clock.Step(time.Minute)
		require.Contains(t, w.cycle(), "evict other-13")
	})
}

func TestHangingAnnotationsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, marks := worldWithSlowMarks(t)
		for _, want := range [][]string{
			{"web-01", "web-02", "web-03", "web-04"}, // in parallel, until their share of the cycle is over
			{"web-05", "web-06"},                     // the others back off
			{"web-01", "web-02", "web-03", "web-04"},
		} {
			w.clock.Step(time.Minute)
			w.cycle()
			require.Equal(t, want, marks.round())
		}
	})
}

// Regression: each pod cost a request in every cycle, for ever.
func TestAnnotationsBackOff(t *testing.T) {
	tests := []struct {
		name   string
		answer error
		want   []int // minutes after the resize
	}{
		{name: "a webhook that fails", answer: apierrors.NewInternalError(errors.New("failed calling webhook")), want: []int{1, 3, 7, 15, 31, 63}},
		{name: "no answer", answer: errors.New("connection refused"), want: []int{1, 3, 7, 15, 31, 63}},
		{name: "an API server with too much to do", answer: apierrors.NewTooManyRequests("later", 1), want: []int{1, 3, 7, 15, 31, 63}},
		{name: "a conflict", answer: apierrors.NewConflict(corev1.Resource("pods"), "web-01", errors.New("it changed")), want: []int{1, 3, 7, 15, 31, 63}},
		{name: "an invalid pod", answer: apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "web-01", nil), want: []int{1}},
		{name: "a policy with code 400", answer: apierrors.NewBadRequest("admission webhook denied the request"), want: []int{1}},
		{name: "a policy with code 403", answer: forbidden("ValidatingAdmissionPolicy denied the request", ""), want: []int{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.workload("web", 2, vpav1.UpdateModeInPlaceOrRecreate)
			w.refusing("annotate", errors.New("not now"))
			require.Equal(t, []string{"resize web-01"}, w.cycle())
			tries := 0
			w.refuse = func(ask, _ string) error {
				if ask == "annotate" {
					tries++
					return tt.answer
				}
				return apierrors.NewTooManyRequests("later", 1)
			}
			var at []int
			for minute := 1; minute <= 64; minute++ {
				w.clock.Step(time.Minute)
				before := tries
				w.cycle()
				if tries > before {
					at = append(at, minute)
				}
			}
			require.Equal(t, tt.want, at)
			if len(tt.want) == 1 {
				require.Zero(t, sizeOf(&w.unmarked), "it is given up")
			}
		})
	}
}

// Regression: a patch that adds the first annotations of a pod replaced those that somebody else had
// added since the pod was read, such as one that keeps a node from being drained.
func TestAnnotationsOfOthersAreKept(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 2, vpav1.UpdateModeInPlaceOrRecreate)
	get := func() (pod corev1.Pod) {
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-01"}, &pod))
		return pod
	}
	w.refuse = func(ask, name string) error {
		if pod := get(); ask == "annotate" && name == pod.Name && pod.Annotations == nil {
			pod.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
			require.NoError(t, w.Update(t.Context(), &pod))
		}
		return nil
	}
	require.Equal(t, []string{"resize web-01"}, w.cycle())
	require.Contains(t, get().Annotations, "karpenter.sh/do-not-disrupt")
	w.clock.Step(time.Minute)
	w.cycle()
	require.Contains(t, get().Annotations, "karpenter.sh/do-not-disrupt")
	require.Equal(t, "true", get().Annotations["vpaInPlaceUpdated"])
}
