package updater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/podupdate"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestACycleEvictsWithinTheBudgetOfEachGroup(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 6 {
		w.workload(fmt.Sprintf("web%d", i), 4, vpav1.UpdateModeRecreate)
	}
	require.Len(t, w.cycle(), 12, "two of four, of each")
	require.Empty(t, w.cycle(), "two pods of each workload are missing")
	require.Len(t, w.heard("EvictedByVPA"), 12)
	require.Len(t, w.heard("EvictedPod"), 12)
	require.Contains(t, w.heard("EvictedPod")[0], "(update/evict)")
}

// A cache may show a pod for a while after it was evicted or resized. The updater must then neither
// repeat the request nor exceed the group's budget.
func TestActionsThatTheCacheDoesNotShowAreNotRepeated(t *testing.T) {
	for mode, ask := range map[vpav1.UpdateMode]string{vpav1.UpdateModeRecreate: "evict", vpav1.UpdateModeInPlaceOrRecreate: "resize"} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t, nil)
			w.workload("web", 4, mode)
			var vpas vpav1.VerticalPodAutoscalerList
			var pods corev1.PodList
			require.NoError(t, w.List(t.Context(), &vpas))
			require.NoError(t, w.List(t.Context(), &pods))
			require.Equal(t, []string{ask + " web-01", ask + " web-02"}, w.cycle())
			r := w.newRun()
			r.forget(vpas.Items, pointersTo(pods.Items))
			w.asked = nil
			work := r.assign(t.Context(), vpas.Items, pointersTo(pods.Items))
			r.updateAll(t.Context(), work)
			require.Empty(t, w.asked)

			w.clock.Step(podupdate.CacheTime) // it is not waited for for ever
			r = w.newRun()
			r.forget(vpas.Items, pointersTo(pods.Items))
			r.updateAll(t.Context(), r.assign(t.Context(), vpas.Items, pointersTo(pods.Items)))
			require.NotEmpty(t, w.asked)
		})
	}
}

func TestCycleStaysWithinTheBudgetLeftByBoosts(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 4, vpav1.UpdateModeRecreate)
	var pods corev1.PodList
	require.NoError(t, w.List(t.Context(), &pods))
	w.memory.NoteSent(&pods.Items[3], nil, time.Time{})
	require.Equal(t, []string{"evict web-01"}, w.cycle(), "a pod whose boost is ending uses one of the two places")
	require.True(t, w.busy(&pods.Items[0]), "boosts call this")
	require.False(t, w.busy(&pods.Items[1]))
}

func TestNextCycleResumesAtTheDeadline(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Concurrent = 1 })
	var names []string
	for i := range 9 {
		names = append(names, fmt.Sprintf("web%d", i))
		w.workload(names[i], 2, vpav1.UpdateModeRecreate)
	}
	var reached []string
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		w.asked, w.done = nil, nil
		w.refuse = func(string, string) error {
			if len(w.asked) == 3 {
				cancel() // time is up after the third request
			}
			return nil
		}
		w.RunOnce(ctx)
		for _, done := range w.done {
			name, _, _ := strings.Cut(strings.TrimPrefix(done, "evict "), "-")
			reached = append(reached, name)
		}
	}
	require.Equal(t, names, reached, "each once, in turn")
	require.Contains(t, strings.Join(w.logs, "\n"), "the next cycle starts with the VPAs that this one did not reach")
}

func TestExhaustedRateLimitEndsTheCycleForItsKind(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits, o.Concurrent = NewLimits(0.001, 2), 1 })
	for i := range 5 {
		w.workload(fmt.Sprintf("slow%d", i), 2, vpav1.UpdateModeRecreate)
		w.workload(fmt.Sprintf("tall%d", i), 2, vpav1.UpdateModeInPlaceOrRecreate)
	}
	require.ElementsMatch(t, []string{"evict slow0-01", "evict slow1-05", "resize tall0-03", "resize tall1-07"}, w.cycle(), "a burst of two each, then one every 1000 s")
	failed := func(name string) float64 {
		return testutil.ToFloat64(failedEvictions.WithLabelValues("1", "Recreate", name, "ns", "EvictionRateLimiterWaitFailed"))
	}
	require.Equal(t, 1.0, failed("slow2"))
	require.Equal(t, 1.0, testutil.ToFloat64(failedResizes.WithLabelValues("1", "tall2", "ns", "InPlaceUpdateRateLimiterWaitFailed")))
	require.Empty(t, w.cycle())
	require.Equal(t, 2.0, failed("slow2"), "the next cycle started with it")
	require.Equal(t, 0.0, failed("slow3"))
}

// Regression: the VPA at which a rate limit ended was first in every cycle, and one with many pods
// took all of it.
func TestVPAThatUsedTheRateLimitIsNotFirstInTheNextCycle(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits, o.Concurrent = NewLimits(0.001, 3), 1 })
	w.workload("a", 9, vpav1.UpdateModeRecreate)
	w.workload("b", 2, vpav1.UpdateModeRecreate)
	w.refusing("evict", apierrors.NewConflict(corev1.Resource("pods"), "web", errors.New("changed"))) // so that there is as much to do again
	require.Equal(t, []string{"evict a-01", "evict a-02", "evict a-03"}, w.cycle())
	w.Limits = NewLimits(0.001, 3)
	require.Equal(t, []string{"evict b-10", "evict b-11", "evict a-01"}, w.cycle())
}

func TestZeroLimitIsUnlimited(t *testing.T) {
	require.NoError(t, wait(t.Context(), NewLimits(-1, 1).Evictions))
	require.NoError(t, wait(t.Context(), NewLimits(0, 0).Resizes))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, wait(ctx, nil))
}

func TestPanicAffectsItsVPAOnly(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("bad", 2, vpav1.UpdateModeRecreate)
	w.workload("good", 2, vpav1.UpdateModeRecreate)
	before := testutil.ToFloat64(panics)
	w.refuse = func(_, name string) error {
		if strings.HasPrefix(name, "bad") {
			panic("oops")
		}
		return nil
	}
	w.cycle()
	require.Equal(t, []string{"evict good-03"}, w.done)
	require.Equal(t, before+1, testutil.ToFloat64(panics))
	require.Contains(t, strings.Join(w.logs, "\n"), "please report this")
}

func TestFaultyPodsAreSkipped(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 2, vpav1.UpdateModeRecreate)
	w.pod("web", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil })
	w.pod("web", func(p *corev1.Pod) { p.OwnerReferences = nil })
	w.pod("web", func(p *corev1.Pod) { p.OwnerReferences[0].Name = "missing" })
	w.pod("web", func(p *corev1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Thing", Name: "x", Controller: ptr.To(false)})
		p.Status = corev1.PodStatus{}
		p.Annotations = map[string]string{"vpaObservedContainers": "!!"}
	})
	w.pod("web", func(p *corev1.Pod) { p.Spec.Containers = nil })
	w.cycle()
	for _, ask := range w.asked {
		require.NotContains(t, []string{"evict web-03", "evict web-04", "evict web-05", "evict web-07"}, ask)
	}
	require.NotContains(t, strings.Join(w.logs, "\n"), "panic")
}

func TestPodsThatAreGoneAreNoErrors(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("gone", 2, vpav1.UpdateModeRecreate)
	w.workload("gonetoo", 2, vpav1.UpdateModeInPlaceOrRecreate)
	w.refuse = func(ask, name string) error {
		return w.WithWatch.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "missing"}, &corev1.Pod{})
	}
	require.Len(t, w.cycle(), 2, "pods that are gone use up the budget although the cache shows them running")
	require.Zero(t, testutil.ToFloat64(failedEvictions.WithLabelValues("1", "Recreate", "gone", "ns", "EvictionError")))
	require.Zero(t, testutil.ToFloat64(failedResizes.WithLabelValues("1", "gonetoo", "ns", "InPlaceUpdateError")))
}

// An eviction without an answer may have been carried out: it counts in the group's budget.
func TestAnEvictionWithoutAnswerCountsAsOne(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("silent", 3, vpav1.UpdateModeRecreate)
	w.refusing("evict", errors.New("connection reset by peer"))
	require.Equal(t, []string{"evict silent-01"}, w.cycle())
	require.Equal(t, 1.0, testutil.ToFloat64(failedEvictions.WithLabelValues("1", "Recreate", "silent", "ns", "EvictionError")))
}

// An API server that does not answer for one custom kind must not keep other pods from being
// processed.
func TestCachedAnswersCountAfterTheDeadline(t *testing.T) {
	w := newWorld(t, nil)
	w.workload("web", 2, vpav1.UpdateModeRecreate)
	w.pod("web", func(p *corev1.Pod) {
		p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = "example.com/v1", "Thing"
	})
	var vpas vpav1.VerticalPodAutoscalerList
	var pods corev1.PodList
	require.NoError(t, w.List(t.Context(), &vpas))
	require.NoError(t, w.List(t.Context(), &pods))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	work := w.newRun().assign(ctx, vpas.Items, pointersTo(pods.Items))
	require.Len(t, work, 1)
	require.Len(t, work[0].pods, 2)
}

// One tenant's PodDisruptionBudget that allows nothing must not delay other tenants, however many
// workloads it covers and whatever the rate limit: each has its turn.
func TestRefusedBudgetDelaysNoOtherTenant(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits, o.Concurrent = NewLimits(0.001, 3), 1 })
	for i := range 6 {
		w.workload(fmt.Sprintf("a-guarded%d", i), 2, vpav1.UpdateModeRecreate)
	}
	w.workload("z-other", 2, vpav1.UpdateModeRecreate)
	w.refuse = func(ask, name string) error {
		if ask == "evict" && strings.HasPrefix(name, "a-guarded") {
			return budgetRefusal(2)
		}
		return nil
	}
	for range 3 {
		w.cycle()
		if len(w.done) > 0 {
			break
		}
		w.Limits = NewLimits(0.001, 3) // what one interval brings
		w.clock.Step(w.Interval)
	}
	require.Equal(t, []string{"evict z-other-13"}, w.done)
}

// Timestamps in the future neither end a wait early nor extend it forever: ages are measured from
// when this process first saw them.
func TestTimesInTheFutureDoNotBlockForever(t *testing.T) {
	w := newWorld(t, nil)
	ahead := metav1.NewTime(w.clock.Now().Add(365 * 24 * time.Hour))
	w.workload("web", 3, vpav1.UpdateModeInPlaceOrRecreate)
	w.pod("web", func(p *corev1.Pod) {
		p.Status.StartTime = &ahead
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, LastTransitionTime: ahead}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", StartedAt: ahead, FinishedAt: ahead}}}}
	})
	require.NotContains(t, w.cycle(), "evict web-04", "it is not deferred for long")
	w.clock.Step(6 * time.Minute)
	for range 3 {
		w.cycle()
		if slices.Contains(w.done, "evict web-04") {
			return
		}
		w.clock.Step(w.Interval)
	}
	require.Fail(t, "it is never evicted", "%v", w.asked)
}

// Regression: pods that a cycle left when its time was up in the middle of their VPA were counted nowhere,
// and the VPA as finished.
func TestPodsOfAnInterruptedVPAArePostponed(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Concurrent = 1 })
	w.workload("web", 9, vpav1.UpdateModeRecreate)
	ctx, cancel := context.WithCancel(t.Context())
	w.refuse = func(string, string) error {
		if len(w.asked) == 3 {
			cancel() // time is up after the third request
		}
		return nil
	}
	w.RunOnce(ctx)
	require.Len(t, w.done, 3)
	require.Equal(t, 6.0, testutil.ToFloat64(postponedPods.WithLabelValues(postponedByDeadline)))
	require.Equal(t, 1.0, testutil.ToFloat64(unreachedVPAs))
	require.Equal(t, 9.0, testutil.ToFloat64(decidedPods.WithLabelValues(facts.DoEvict, "update/evict")))
	out, err := w.Explain(t.Context(), "ns", "web")
	require.NoError(t, err)
	require.Equal(t, postponedByDeadline, out.Pods[0].Postponed)
}
