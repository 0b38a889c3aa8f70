package updater

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestRefusedEvictionBacksOff(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("kept", 4, vpav1.UpdateModeRecreate)
	w.workload("free", 2, vpav1.UpdateModeRecreate)
	w.refuse = func(ask, name string) error {
		if ask == "evict" && name[:4] == "kept" {
			return budgetRefusal(4)
		}
		return nil
	}
	require.ElementsMatch(t, []string{"evict kept-01", "evict free-05"}, w.cycle(), "one refusal stops the group, and no other group")
	require.Len(t, w.heard("EvictionRefused"), 1)
	require.Contains(t, w.heard("EvictionRefused")[0], "EvictionRefused of kept: Pod kept-01 may not be evicted: Cannot evict pod as it would violate the pod's disruption budget. The disruption budget keep needs 4")
	require.Contains(t, w.heard("EvictionRefused")[0], "(update/evict)")
	require.Equal(t, 1.0, testutil.ToFloat64(failedEvictions.WithLabelValues("2", "Recreate", "kept", "ns", "EvictionError")))

	w.clock.Step(30 * time.Second)
	require.Empty(t, w.cycle())
	w.clock.Step(30 * time.Second)
	require.Equal(t, []string{"evict kept-01"}, w.cycle(), "after a minute")
	w.clock.Step(time.Minute)
	require.Empty(t, w.cycle(), "two refusals in a row: two minutes")
	require.Len(t, w.heard("EvictionRefused"), 1, "reported once until it changes")

	w.clock.Step(time.Minute)
	w.refusing("evict", nil)
	require.Equal(t, []string{"evict kept-01", "evict kept-02"}, w.cycle())
	w.pod("kept", nil)
	w.pod("kept", nil)
	w.refusing("evict", budgetRefusal(4))
	w.clock.Step(time.Second)
	require.Len(t, w.cycle(), 1, "the back-off starts again")
	require.Len(t, w.heard("EvictionRefused"), 2, "it was over")
}

// A webhook that hangs takes up to 30 seconds of a cycle for each resize: one pod of a workload asks whether it answers again, and no
// pod is evicted for it.
func TestAWebhookThatHangsOnResizesStartsABackOff(t *testing.T) {
	w := newWorld(t, nil, "InPlaceOrRecreate")
	w.workload("web", 4, vpav1.UpdateModeInPlaceOrRecreate)
	w.refusing("resize", apierrors.NewInternalError(errors.New(`failed calling webhook "a.example.com": context deadline exceeded`)))
	tried := []int{}
	for range 7 {
		tried = append(tried, len(w.cycle()))
		w.clock.Step(time.Minute)
	}
	require.Equal(t, []int{1, 1, 0, 1, 0, 0, 1}, tried)
	require.Len(t, w.heard("ResizeRefused"), 1)
	require.Contains(t, w.heard("ResizeRefused")[0], "cannot be resized: Internal error occurred: failed calling webhook")
	w.refusing("resize", nil)
	w.clock.Step(10 * time.Minute)
	require.Equal(t, []string{"resize web-01", "resize web-02"}, w.cycle(), "as many as the group may miss")
}

// Regression: a refusal was stamped with a time later in its cycle than the time at which other
// cycles looked at it. After a minute its age was a few milliseconds short of the back-off, which
// lasted a cycle longer: one minute became two cycles, two became three.
func TestBackOffEndsOnTheCycleOfItsInterval(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("kept", 4, vpav1.UpdateModeRecreate)
	w.refuse = func(ask, _ string) error {
		if ask == "evict" {
			w.clock.Step(40 * time.Millisecond) // the API server takes its time
			return budgetRefusal(4)
		}
		return nil
	}
	begin := w.clock.Now()
	tried := []int{}
	for minute := range 7 { // the second half of them begins a moment early
		w.clock.SetTime(begin.Add(time.Duration(minute)*time.Minute - time.Duration(max(minute-3, 0))*3*time.Millisecond))
		if len(w.cycle()) > 0 {
			tried = append(tried, minute)
		}
	}
	require.Equal(t, []int{0, 1, 3, 6}, tried)
}

// The same for evictions without effect, and for resizes that do not complete.
func TestOtherTimeoutsEndOnTheCycleOfTheirInterval(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("vain", 4, vpav1.UpdateModeRecreate)
	w.refuse = func(ask, _ string) error {
		if ask == "evict" {
			w.clock.Step(40 * time.Millisecond)
		}
		return nil
	}
	begin := w.clock.Now()
	var held, last int
	for minute := range 80 {
		w.clock.SetTime(begin.Add(time.Duration(minute)*time.Minute - time.Duration(minute)*time.Millisecond))
		asked := w.cycle()
		if len(asked) > 0 {
			held, last = minute-last, minute
		}
		for range w.done {
			w.pod("vain", nil)
		}
	}
	require.Equal(t, 60, held, "an hour")

	deferred := newWorld(t, nil)
	deferred.workload("tall", 2, vpav1.UpdateModeInPlaceOrRecreate)
	for _, name := range []string{"tall-01", "tall-02"} {
		deferred.says(name, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}, "")
	}
	begin = deferred.clock.Now()
	for minute := range 6 {
		deferred.clock.SetTime(begin.Add(time.Duration(minute)*time.Minute - time.Duration(minute)*time.Millisecond))
		require.Equal(t, minute == 5, len(deferred.cycle()) > 0, "minute %d", minute)
	}
}

// Quotas, webhooks, policies and missing permissions do not pass by themselves, so retries back
// off. Missing permissions affect all pods of an owner; the others may affect one pod, and the rest
// must have their turn.
func TestPersistentRefusalsBackOff(t *testing.T) {
	for err, all := range map[error]bool{
		forbidden("exceeded quota: q, requested: cpu=1", ""):                                                  false,
		forbidden(`admission webhook "w" denied the request: no`, ""):                                         false,
		forbidden(`User "x" cannot patch resource "pods/resize", cannot create resource "pods/eviction"`, ""): true,
	} {
		for mode, ask := range map[vpav1.UpdateMode]string{vpav1.UpdateModeRecreate: "evict", vpav1.UpdateModeInPlace: "resize"} {
			t.Run(string(mode)+" "+err.Error(), func(t *testing.T) {
				w := newWorld(t, nil, "InPlace")
				w.workload("web", 2, mode)
				w.refuse = func(what, name string) error {
					if what == ask && (all || name == "web-01") {
						return err
					}
					return nil
				}
				if all {
					require.Equal(t, []string{ask + " web-01"}, w.cycle())
				} else {
					require.Equal(t, []string{ask + " web-01", ask + " web-02"}, w.cycle())
				}
				w.clock.Step(30 * time.Second)
				require.Empty(t, w.cycle())
				if !all && mode == vpav1.UpdateModeRecreate {
					w.pod("web", nil)
				}
				w.refusing(ask, err)
				w.clock.Step(30 * time.Second)
				require.Equal(t, ask+" web-01", w.cycle()[0], "after a minute")
				w.clock.Step(time.Minute)
				require.NotContains(t, w.cycle(), ask+" web-01", "two in a row: two minutes")
				w.clock.Step(time.Minute)
				w.refusing(ask, nil)
				require.Equal(t, ask+" web-01", w.cycle()[0], "the refusals are over")
				evictions, resizes := w.memory.Refused("web-01-uid", w.clock.Now())
				require.Zero(t, evictions)
				require.Zero(t, resizes)
			})
		}
	}
}

func TestRulesDecideWhichRefusalsBackOffAndForWhichPods(t *testing.T) {
	rules := withOverlay(t, `
  - {before: refusals/passing, decision: {name: quota, when: refusal.resize && refusal.why == 'Quota', do: Retry}}
  - {before: refusals/passing, decision: {name: webhook, when: refusal.message.contains('frozen'), do: BackOffWorkload}}
`)
	both := []string{"resize web-01", "resize web-02"}

	w := newWorld(t, rules)
	w.workload("web", 2, vpav1.UpdateModeInPlace)
	w.refusing("resize", forbidden("exceeded quota: q, requested: cpu=1", ""))
	require.Equal(t, both, w.cycle())
	require.Equal(t, both, w.cycle(), "the next cycle tries them")

	w = newWorld(t, rules)
	w.workload("web", 2, vpav1.UpdateModeInPlace)
	w.refusing("resize", forbidden(`admission webhook "w" denied the request: the namespace is frozen`, ""))
	require.Equal(t, both[:1], w.cycle(), "one refusal stops the workload")
	require.Empty(t, w.cycle())
}

// A refused resize that is followed by an eviction made progress: the next pods have their turn as
// usual.
func TestRefusedResizeFollowedByAnEvictionDoesNotBackOff(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 4, vpav1.UpdateModeInPlaceOrRecreate)
	w.refusing("resize", forbidden("static pods cannot be resized", ""))
	require.Equal(t, []string{"resize web-01", "evict web-01", "resize web-02", "evict web-02"}, w.cycle())
	for _, pod := range []types.UID{"web-01-uid", "web-02-uid"} {
		_, resizes := w.memory.Refused(pod, w.clock.Now())
		require.Zero(t, resizes)
	}
}

func TestConflictsAndBusyServersDoNotBackOff(t *testing.T) {
	for _, err := range []error{apierrors.NewConflict(corev1.Resource("pods"), "web", errors.New("changed")), apierrors.NewTooManyRequests("later", 1)} {
		w := newWorld(t, nil)
		w.workload("flat", 4, vpav1.UpdateModeRecreate)
		w.workload("tall", 4, vpav1.UpdateModeInPlaceOrRecreate)
		w.refuse = func(string, string) error { return err }
		require.Len(t, w.cycle(), 8)
		require.Len(t, w.cycle(), 8)
	}
}

// A request without an answer may have been carried out, and the cache may show that much later
// than the next cycle. Until it does, or should have, the pod is left alone and keeps its place in
// the budget.
func TestUnansweredCallCountsUntilTheCacheShowsItsOutcome(t *testing.T) {
	for mode, ask := range map[vpav1.UpdateMode]string{vpav1.UpdateModeRecreate: "evict", vpav1.UpdateModeInPlaceOrRecreate: "resize"} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t, nil)
			w.workload("web", 2, mode)
			w.refusing(ask, context.DeadlineExceeded)
			require.Equal(t, []string{ask + " web-01"}, w.cycle())
			w.refusing(ask, nil)
			w.clock.Step(20 * time.Second)
			require.Empty(t, w.cycle(), "web-01 may be away, and then web-02 is the only one")
			require.True(t, w.busy(w.podNamed("web-01")))
			require.NotContains(t, w.podNamed("web-01").Annotations, "vpaInPlaceUpdated", "it does not show a resize")
			w.clock.Step(40 * time.Second)
			require.Equal(t, []string{ask + " web-01"}, w.cycle(), "it was not carried out")
		})
	}
	t.Run("the cache shows that a resize was carried out", func(t *testing.T) {
		w := newWorld(t, nil)
		w.workload("web", 2, vpav1.UpdateModeInPlaceOrRecreate)
		w.refusing("resize", context.DeadlineExceeded)
		w.cycle()
		w.refusing("resize", nil)
		pod := w.podNamed("web-01")
		pod.Generation++
		pod.Spec.Containers[0].Resources.Requests = amounts("500m", "512Mi")
		require.NoError(t, w.WithWatch.Update(t.Context(), pod))
		w.clock.Step(20 * time.Second)
		require.Equal(t, []string{"resize web-02"}, w.cycle())
		require.Equal(t, "true", w.podNamed("web-01").Annotations["vpaInPlaceUpdated"], "once it shows the resize, it is marked")
	})
	t.Run("an API server that is not there carries nothing out", func(t *testing.T) {
		w := newWorld(t, nil)
		w.workload("web", 2, vpav1.UpdateModeRecreate)
		w.refusing("evict", fmt.Errorf("dial tcp: %w", syscall.ECONNREFUSED))
		require.Len(t, w.cycle(), 2)
		w.refusing("evict", nil)
		require.Equal(t, []string{"evict web-01"}, w.cycle())
	})
}

// podNamed reads a pod.
func (w *world) podNamed(name string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{}
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, pod))
	return pod
}
