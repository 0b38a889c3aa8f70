package updater

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/freshness"
	"github.com/celvpa/celvpa/controllers/matcher"
	"github.com/celvpa/celvpa/controllers/podupdate"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine/compile"
)

func TestExpiredBoostIsEnded(t *testing.T) {
	v := sixty(t)
	v.Name = "ended"
	l := newLab(t, 1, v, webPod(t, "p", time.Hour))
	turns := 0
	l.turn = func(context.Context) error { turns++; return nil }
	ended := func() float64 { return testutil.ToFloat64(resizedPods.WithLabelValues("0", "ended", "ns")) }
	before := ended()
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, []string{"p 0.cpu=150m"}, l.resized, "memory is left to the updater")
	require.Equal(t, []string{"add vpaUpdates", "add vpaInPlaceUpdated", "remove vpaCpuStartupBoost~1a"}, l.marked)
	require.Equal(t, 1, turns)
	require.Contains(t, <-l.events.Events, "InPlaceResizedByVPA")
	require.InDelta(t, before+1, ended(), 0)
}

// Regression: an older VPA in mode Off, which admission ignores, ended the boosts that a younger one
// had given. The pods were then below their lower bound and were evicted, the next ones boosted, and
// so on.
func TestBoostIsEndedByAVPAThatAdmissionUses(t *testing.T) {
	tests := []struct {
		name, older string // its spec
		next        again
		ended       bool
	}{
		{name: "an older VPA in mode Off is ignored", older: `,"updatePolicy":{"updateMode":"Off"}`, next: again{after: 59*time.Second + slack}},
		{name: "an older VPA in mode Initial is not", older: `,"updatePolicy":{"updateMode":"Initial"}`, next: again{after: time.Minute}, ended: true},
		{name: "nor one in mode Off with a boost", older: `,"updatePolicy":{"updateMode":"Off"},` + strings.ReplaceAll(boost60, "60", "600"), next: again{after: 599*time.Second + slack}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old, young := webVPA(t, tt.older), webVPA(t, `,"updatePolicy":{"updateMode":"Recreate"},`+boost60)
			old.Name, old.CreationTimestamp = "old", metav1.NewTime(noon.Add(-time.Hour))
			young.Name, young.CreationTimestamp = "young", metav1.NewTime(noon)
			l := newLab(t, 1, old, young, webPod(t, "p", time.Second))
			require.Equal(t, tt.next, l.look(t.Context(), keyOf("p")))
			require.Equal(t, tt.ended, len(l.resized) > 0)
		})
	}
	t.Run("without such a VPA it ends all the same", func(t *testing.T) {
		l := newLab(t, 1, webVPA(t, `,"updatePolicy":{"updateMode":"Off"}`), webPod(t, "p", time.Second))
		require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
		require.Len(t, l.resized, 1)
	})
}

// Regression: without the pipeline that a VPA pins, admission boosts by the default one, and nothing
// ended these boosts.
func TestBoostEndsWithoutThePinnedPipeline(t *testing.T) {
	v := sixty(t)
	v.Annotations = map[string]string{policy.AnnotationPipeline: "default@0.0.1"}
	l := newLab(t, 1, v, webPod(t, "p", time.Hour), webPod(t, "q", time.Second))
	require.Error(t, policy.For(l.Rules(), v).Err)
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, []string{"p 0.cpu=150m"}, l.resized)
	require.Equal(t, again{after: 59*time.Second + slack}, l.look(t.Context(), keyOf("q")), "after its time")
}

// A resize without an answer may have been carried out, so its place in the budget is taken until
// the cache shows it, or should have.
func TestUnansweredEndOfABoostIsNotSentTwice(t *testing.T) {
	l := newLab(t, 2, sixty(t), webPod(t, "p", time.Hour), webPod(t, "q", time.Hour))
	l.onSent = func(string) error { return context.DeadlineExceeded }
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
	l.onSent = nil
	l.look(t.Context(), keyOf("p"))
	l.look(t.Context(), keyOf("q"))
	require.Empty(t, l.resized)
	l.clock.Step(podupdate.CacheTime)
	l.look(t.Context(), keyOf("p"))
	require.Equal(t, []string{"p 0.cpu=150m"}, l.resized)
}

// A pod whose containers are boosted for different times is resized when each boost is over.
func TestBoostsOfOnePodEndOneByOne(t *testing.T) {
	pod := webPod(t, "p", 30*time.Second)
	pod.Spec.Containers = append(pod.Spec.Containers, *pod.Spec.Containers[0].DeepCopy())
	pod.Spec.Containers[1].Name = "b"
	pod.Annotations[facts.AnnotationStartupBoost+"b"] = beforeOne
	v := webVPA(t, `,"resourcePolicy":{"containerPolicies":[{"containerName":"a","startupBoost":{"cpu":{"type":"Factor","factor":3,"durationSeconds":10}}}]},`+boost60)
	l := newLab(t, 1, v, pod)
	require.Equal(t, again{after: 30*time.Second + slack}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, []string{"p 0.cpu=150m"}, l.resized)
	require.Equal(t, []string{"add vpaUpdates", "add vpaInPlaceUpdated", "remove vpaCpuStartupBoost~1a"}, l.marked)
}

// Regression: with more memory than its node had, or a memory limit below usage, the resize that
// was to end a boost never completed, and the pod kept its CPU forever.
func TestBoostEndsWhereMemoryCannotBeResized(t *testing.T) {
	has := func(memory string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			c := &pod.Spec.Containers[0]
			granted := c.Resources.DeepCopy()
			granted.Requests["memory"], granted.Limits["memory"] = resource.MustParse(memory), resource.MustParse(memory)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Resources: granted}}
		}
	}
	asks := func(memory string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			list := &pod.Spec.Containers[0].Resources
			list.Requests["memory"], list.Limits["memory"] = resource.MustParse(memory), resource.MustParse(memory)
		}
	}
	says := func(kind corev1.PodConditionType, reason string, ago time.Duration) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(noon.Add(-ago))})
		}
	}
	for name, tt := range map[string]struct {
		change []func(*corev1.Pod)
		want   []string
	}{
		"less of all with a limit that stays": {change: []func(*corev1.Pod){func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("200Mi")
			delete(pod.Spec.Containers[0].Resources.Limits, "memory")
		}}, want: []string{"p 0.cpu=150m 0.memory=128Mi"}},
		"more memory":                              {want: []string{"p 0.cpu=150m"}},
		"a lower memory limit":                     {change: []func(*corev1.Pod){asks("1Gi")}, want: []string{"p 0.cpu=150m"}},
		"a deferred resize for memory":             {change: []func(*corev1.Pod){has("200Mi"), asks("1Gi"), says(corev1.PodResizePending, corev1.PodReasonDeferred, 6*time.Minute)}, want: []string{"p 0.cpu=150m 0.memory=200Mi"}},
		"a resize for memory that fails":           {change: []func(*corev1.Pod){has("200Mi"), asks("100Mi"), says(corev1.PodResizeInProgress, corev1.PodReasonError, 0)}, want: []string{"p 0.cpu=150m 0.memory=200Mi"}},
		"a resize that was deferred only just now": {change: []func(*corev1.Pod){has("200Mi"), asks("1Gi"), says(corev1.PodResizePending, corev1.PodReasonDeferred, time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, sixty(t), webPod(t, "p", time.Hour, tt.change...))
			l.look(t.Context(), keyOf("p"))
			require.Equal(t, tt.want, l.resized)
		})
	}
}

// The annotation does not say what to restore, and there is no recommendation. From now on the pod
// is like any other.
func TestBoostWithAnUnreadableAnnotationEndsWithoutAResize(t *testing.T) {
	v := sixty(t)
	v.Status.Recommendation = nil
	l := newLab(t, 1, v, webPod(t, "p", time.Hour, func(p *corev1.Pod) { p.Annotations[facts.AnnotationStartupBoost+"a"] = "{" }))
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Empty(t, l.resized)
	require.Contains(t, l.marked, "remove vpaCpuStartupBoost~1a")
}

func TestEndOfABoostIsRetried(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	for name, tt := range map[string]struct {
		turn, sent error
		want       again
		failed     float64
	}{
		"refused":          {sent: apierrors.NewForbidden(corev1.Resource("pods"), "web-01", errors.New("exceeded quota: q")), want: again{backOff: true}, failed: 1},
		"gone":             {sent: gone, want: again{backOff: true, limited: true}},
		"not sent":         {sent: freshness.Outdated{Reason: "pods have not been watched for 5s"}, want: again{backOff: true}},
		"not its turn yet": {turn: context.Canceled, want: again{backOff: true}},
	} {
		t.Run(name, func(t *testing.T) {
			v := sixty(t)
			v.Name = strings.ReplaceAll(name, " ", "-")
			l := newLab(t, 1, v, webPod(t, "p", time.Hour))
			l.turn = func(context.Context) error { return tt.turn }
			l.onSent = func(string) error { return tt.sent }
			failed := func() float64 {
				return testutil.ToFloat64(failedResizes.WithLabelValues("0", v.Name, "ns", "UnboostError"))
			}
			before := failed()
			require.Equal(t, tt.want, l.look(t.Context(), keyOf("p")))
			require.InDelta(t, before+tt.failed, failed(), 0)
			require.Empty(t, l.resized)
			l.turn, l.onSent = func(context.Context) error { return nil }, nil
			require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")), "the first attempt is forgotten")
			require.Len(t, l.resized, 1)
		})
	}
}

func TestLogNamesTheFlagWhereAPodWithPodLevelResourcesCannotBeResized(t *testing.T) {
	podLevel := func(pod *corev1.Pod) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}
	}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		says   string
		hint   bool
	}{
		"pod-level resources":        {podLevel, "resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled", true},
		"refused for another reason": {podLevel, "exceeded quota: q", false},
		"another pod":                {func(*corev1.Pod) {}, "windows pods cannot be resized", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, sixty(t), webPod(t, "p", time.Hour, tt.change))
			l.onSent = func(string) error {
				return apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New(tt.says))
			}
			var lines []string
			l.Log = funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
			require.Len(t, lines, 1)
			require.Contains(t, lines[0], "cannot end the startup boost; retrying")
			require.Equal(t, tt.hint, strings.Contains(lines[0], "--pod-level-resize=false"))
		})
	}
}

// While a resize is in flight, another pod of the group must not take its place in the budget.
func TestParallelWorkersStayWithinTheBudget(t *testing.T) {
	l := newLab(t, 2, sixty(t), webPod(t, "p", time.Hour), webPod(t, "q", time.Hour))
	var beside again
	l.onSent = func(pod string) error {
		if pod == "p" {
			beside = l.look(t.Context(), keyOf("q"))
		}
		return nil
	}
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, again{backOff: true}, beside)
	require.Equal(t, []string{"p 0.cpu=150m"}, l.resized)
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("q")), "the cache does not know of the resize yet")

	var p corev1.Pod
	require.NoError(t, l.Client.Get(t.Context(), keyOf("p"), &p))
	delete(p.Annotations, facts.AnnotationStartupBoost+"a")
	require.NoError(t, l.Client.Update(t.Context(), &p))
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("q")), "the resize is done")
}

// A cache that lags must not cause the same resize twice.
func TestPodIsNotResizedAgainBeforeTheCacheShowsIt(t *testing.T) {
	l := newLab(t, 1, sixty(t), webPod(t, "p", time.Hour))
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
	var p corev1.Pod
	require.NoError(t, l.Client.Get(t.Context(), keyOf("p"), &p))
	p.Generation++ // the resize has come, and its annotation is still to be taken off
	require.NoError(t, l.Client.Update(t.Context(), &p))
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
	require.Len(t, l.resized, 1)
	l.clock.Step(time.Minute)
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")), "its annotation is still there")
	require.Len(t, l.resized, 2)
}

// While a pod waits for its turn, a new pod of the same name, whose boost has just started, may have
// replaced it.
func TestBoostOfAReplacementPodIsNotEnded(t *testing.T) {
	l := newLab(t, 1, sixty(t), webPod(t, "p", time.Hour))
	l.turn = func(ctx context.Context) error {
		require.NoError(t, l.Client.Delete(ctx, webPod(t, "p", 0)))
		return l.Client.Create(ctx, webPod(t, "p", 0, func(p *corev1.Pod) { p.UID = "another" }))
	}
	require.Equal(t, again{backOff: true, limited: true}, l.look(t.Context(), keyOf("p")))
	require.Empty(t, l.resized)
	l.turn = func(context.Context) error { return nil }
	require.Equal(t, again{after: 60*time.Second + slack}, l.look(t.Context(), keyOf("p")))
}

// However long a pod waits for its turn, it keeps its place in the budget.
func TestPodKeepsItsPlaceInTheBudgetWhileRateLimited(t *testing.T) {
	l := newLab(t, 2, sixty(t), webPod(t, "p", time.Hour), webPod(t, "q", time.Hour))
	var beside again
	l.turn = func(ctx context.Context) error {
		l.turn = func(context.Context) error { return nil }
		l.clock.Step(time.Hour)
		beside = l.look(ctx, keyOf("q"))
		return nil
	}
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, again{backOff: true}, beside)
}

// The updater's cycle may just have evicted or resized another pod of the group.
func TestBoostsEndWithinTheBudgetLeftByTheCycle(t *testing.T) {
	l := newLab(t, 2, sixty(t), webPod(t, "p", time.Hour), webPod(t, "q", time.Hour))
	l.memory.NoteEvicted(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "q"}}, l.clock.Now())
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
	require.Empty(t, l.sentSoFar())
	l.clock.Step(podupdate.CacheTime)
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	var p, q corev1.Pod
	require.NoError(t, l.Client.Get(t.Context(), keyOf("p"), &p))
	require.NoError(t, l.Client.Get(t.Context(), keyOf("q"), &q))
	require.True(t, l.busy(&p), "the cycle calls this")
	require.False(t, l.busy(&q))
}

// A panic about one pod must not end the worker.
func TestPanicAffectsItsPodOnly(t *testing.T) {
	l := newLab(t, 1, sixty(t), webPod(t, "p", time.Hour))
	l.turn = func(context.Context) error { panic("oh") }
	require.Equal(t, again{backOff: true}, l.look(t.Context(), keyOf("p")))
}

// Audited overlays are evaluated for boosts, too.
func TestAuditedOverlaysReportTheirEffectOnBoosts(t *testing.T) {
	l := newLab(t, 1, sixty(t), webPod(t, "p", time.Hour))
	off, err := policy.Load(policy.Options{Cache: &compiledSets, Points: []string{facts.ContainerPolicy, facts.PodValidate, facts.PodAdmit, facts.PodFit, facts.PodResources, facts.PodPriority, facts.PodUnboost}}) // as an overlay that ends none
	require.NoError(t, err)
	v := &matcher.VPA{Object: sixty(t), Rules: compile.Selection{Plan: shippedPlan(t), Shadows: []compile.Shadow{{Overlay: "later", Mode: "Audit", Plan: off.Default()}}}}
	l.turn = func(context.Context) error { return context.Canceled }
	pod := webPod(t, "p", time.Hour)
	require.Equal(t, again{backOff: true}, l.decide(t.Context(), pod, v, l.Log))
	require.Equal(t, "Normal RuleOverlayAudit RuleOverlay later (Audit) would change startup boosts: pod p: InPlaceCPU (unboost/boost-over-cpu-first) → Skip (unboost/gate-off)", <-l.events.Events)
}

// Regression: pods that find no room on the nodes counted as disrupted, so the boosts whose CPU they
// were waiting for never ended.
func TestBoostEndsWhileOtherPodsFindNoRoomForTheirs(t *testing.T) {
	unscheduled := func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	}
	l := newLab(t, 2, sixty(t), webPod(t, "p", time.Hour), webPod(t, "q", 0, unscheduled))
	require.Equal(t, again{after: time.Minute}, l.look(t.Context(), keyOf("p")))
	require.Equal(t, []string{"p 0.cpu=150m"}, l.resized)
}
