package recommender

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/history"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
)

func TestOnlyWhatChangedIsWritten(t *testing.T) {
	c := newCluster(t, append(workload("a", "app"), workload("b", "app")...)...)
	c.cycle()
	require.Equal(t, []string{"a", "b"}, sortedCopy(c.statuses))
	require.Zero(t, c.stored, "without samples there is nothing to keep")
	c.cycle("a app")
	require.Equal(t, []string{"a", "b", "a"}, append(sortedCopy(c.statuses[:2]), c.statuses[2:]...))
	require.Equal(t, 1, c.stored)
	for range 3 {
		c.cycle()
	}
	require.Len(t, c.statuses, 3)
	require.Equal(t, 1, c.stored)
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints())
}

func TestFailedWriteIsLoggedOnceAndRetried(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.fault = func(verb string, _ client.Object) error {
		if verb == "status" || verb == "create" {
			return errors.New("no disk")
		}
		return nil
	}
	for range 4 {
		c.cycle("a app")
	}
	require.Equal(t, 1, c.count("writing the status: no disk"))
	require.Equal(t, 1, c.count("writing checkpoint ns/a-app: no disk"))
	require.Zero(t, c.count("recommendation changed"), "it did not")
	c.fault = nil
	c.cycle()
	require.NotNil(t, c.vpa("a").Status.Recommendation)
	require.Equal(t, map[string]int{"a-app": 4}, c.checkpoints())
	require.Equal(t, 2, c.count("recovered"))
	require.Equal(t, 2, c.count("recommendation changed"), "CPU and memory")
}

// TestPostponedWritesComeFirstInTheNextCycle: with writes that take so long that each cycle
// has time for a part only, all are made in the end, and checkpoints that nobody needs are deleted
// all the same.
func TestPostponedWritesComeFirstInTheNextCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []client.Object
		var used []string
		for i := range 30 {
			name := fmt.Sprint("v", i)
			objects = append(objects, workload(name, "app")...)
			used = append(used, name+" app")
		}
		c := newCluster(t, append(objects, checkpointOf("gone", "app", 5))...)
		c.Interval, c.slow, c.Checkpoints.Interval = time.Second, 100*time.Millisecond, time.Nanosecond
		cycles, waited := 0, 0.0
		for ; len(c.statuses) < 30 && cycles < 10; cycles++ {
			c.cycle(used...)
			left := testutil.ToFloat64(postponedWrites.WithLabelValues("status"))
			require.LessOrEqual(t, left, 30.0)
			waited = max(waited, left)
		}
		require.GreaterOrEqual(t, len(c.statuses), 30)
		seen := map[string]bool{}
		for _, name := range c.statuses[:30] {
			require.False(t, seen[name], "%s is written again before others are", name)
			seen[name] = true
		}
		require.Greater(t, cycles, 1)
		require.Positive(t, c.count("statuses postponed to the next cycle"))
		require.Positive(t, waited, "the metric did not say how many wait")
		c.slow, c.usage = 0, nil
		for range 2 { // the second sees what the first has written
			c.cycle()
		}
		for _, object := range []string{"status", "checkpoint"} {
			require.Zero(t, testutil.ToFloat64(postponedWrites.WithLabelValues(object)), "nothing waits any more: %s", object)
		}
		require.NotContains(t, c.checkpoints(), "gone-app")
	})
}

func TestLongWaitingWritesAreUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		quiet := &Update{Workload: &Workload{VPA: aVPA(), waiting: time.Now().Add(-time.Hour)}, Status: &vpav1.VerticalPodAutoscalerStatus{}}
		updates := []*Update{quiet}
		for range 100 {
			updates = append(updates, &Update{Urgent: true, Workload: &Workload{VPA: aVPA()}, Status: &vpav1.VerticalPodAutoscalerStatus{}})
		}
		first := &Update{First: true, Workload: &Workload{VPA: aVPA()}, Status: &vpav1.VerticalPodAutoscalerStatus{}}
		updates = append(updates, first)
		c.writeStatuses(t.Context(), updates, time.Now().Add(time.Second), time.Now().Add(time.Second))
		require.Same(t, quiet, updates[0])
		require.Same(t, first, updates[1], "who has no status at all")
	})
}

// TestTwoHistoriesOfOneNameAreKeptApart: VPA a-b with container c and VPA a with container b-c make
// one name.
func TestTwoHistoriesOfOneNameAreKeptApart(t *testing.T) {
	c := newCluster(t, append(workload("a-b", "c"), workload("a", "b-c")...)...)
	c.cycle("a-b c")
	for range 3 {
		c.cycle("a b-c")
	}
	require.Equal(t, map[string]int{"a-b-c": 1}, c.checkpoints())
	require.Equal(t, 1, c.count(`is that of VPA \"a-b\", container \"c\": rename one of the two`))
}

func TestNothingIsRecommendedBeforeHistoryIsLoaded(t *testing.T) {
	for name, fault := range map[string]error{
		"unreachable": errors.New("dial tcp 10.0.0.1:443: refused"),
		"not allowed": apierrors.NewForbidden(schema.GroupResource{Resource: "verticalpodautoscalercheckpoints"}, "", nil),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, append(workload("a", "app"), checkpointOf("a", "app", 1000))...)
			c.fault = func(verb string, _ client.Object) error {
				if verb == "list *unstructured.UnstructuredList" {
					return fault
				}
				return nil
			}
			c.cycle("a app")
			c.cycle("a app")
			require.Empty(t, c.statuses)
			require.Equal(t, 1, c.count("listing checkpoints"), "logged once")
			require.Equal(t, map[string]int{"a-app": 1000}, c.checkpoints())
			c.fault = nil
			c.cycle("a app")
			require.Equal(t, map[string]int{"a-app": 1003}, c.checkpoints())
			require.Greater(t, c.vpa("a").Status.Recommendation.ContainerRecommendations[0].Target.Cpu().MilliValue(), int64(4000), "mostly from the history")
		})
	}
}

func TestUnusableCheckpointsAreSkipped(t *testing.T) {
	broken, newer := checkpointOf("b", "app", 7), checkpointOf("c", "app", 7)
	broken.Status.CPUHistogram.BucketWeights = map[string]uint32{"999": 1}
	newer.Status.Version = "v9"
	c := newCluster(t, append(append(workload("a", "app"), workload("b", "app")...), append(workload("c", "app"),
		checkpointOf("a", "app", 7), broken, newer, checkpointOf("nobody", "app", 7))...)...)
	c.cycle("a app", "b app")
	require.Equal(t, 2, c.count("checkpoint unusable"))
	require.Equal(t, 1, c.count(`"loaded"=1 "unused"=1 "unreadable"=2`))
	require.Equal(t, map[string]int{"a-app": 8, "b-app": 1, "c-app": 7, "nobody-app": 7}, c.checkpoints(), "what cannot be read is replaced when there is something else")
}

func TestCheckpointsGoWithTheirContainer(t *testing.T) {
	c := newCluster(t, append(workload("a", "app", "sidecar"), checkpointOf("gone", "app", 5))...)
	c.Checkpoints.Interval = time.Nanosecond
	c.cycle("a app", "a sidecar")
	c.cycle()
	require.Equal(t, map[string]int{"a-app": 1, "a-sidecar": 1}, c.checkpoints())
	require.NoError(t, c.api.Delete(t.Context(), podNamed("a", "a")))
	require.NoError(t, c.api.Create(t.Context(), podNamed("a2", "a", "app")))
	c.cycle()
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints())

	w := c.Workloads()[0]
	require.True(t, w.gone("sidecar"))
	w.VPA = w.VPA.DeepCopy()
	w.VPA.Spec.TargetRef.Kind = "RayCluster"
	require.False(t, w.gone("sidecar"), "of heads and workers the workers may come back")
	require.True(t, w.gone("nothing is known of it"))
	require.NoError(t, c.api.Delete(t.Context(), podNamed("a2", "a")))
	c.cycle()
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints(), "scaled to zero")
}

func TestReplacedVPAKeepsItsHistory(t *testing.T) {
	c := newCluster(t, append(workload("a", "app"), checkpointOf("a", "app", 1000))...)
	c.cycle("a app")
	old := c.vpa("a")
	require.NoError(t, c.api.Delete(t.Context(), old))
	again := workload("a")[0].(*vpav1.VerticalPodAutoscaler)
	again.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	require.NoError(t, c.api.Create(t.Context(), again))
	c.cycle("a app")
	require.Equal(t, map[string]int{"a-app": 1002}, c.checkpoints())
}

type onceHistory struct{ loads int }

func (h *onceHistory) Load(context.Context, time.Time) ([]history.Pod, error) {
	h.loads++
	return nil, errors.New("half of it is missing")
}

func TestHistoryIsLoadedOnce(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	h := &onceHistory{}
	c.History, c.Checkpoints = h, nil
	for range 4 {
		c.cycle()
	}
	require.Equal(t, 1, h.loads)
	require.NotEmpty(t, c.statuses)
}

func TestFailingUsageIsLoggedOnceAndTheCycleContinues(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	for _, port := range []int{1111, 2222, 3333} {
		c.fails = fmt.Errorf("read tcp 10.0.0.1:%d: reset", port)
		c.cycle()
	}
	require.Equal(t, 1, c.count("usage incomplete"))
	require.NotEmpty(t, c.statuses)
	c.fails = nil
	c.cycle("a app")
	require.Equal(t, 1, c.count("recovered"))
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints())
}

// TestRecommendationSurvivesAStartWithoutUsage: memory of the last day may be in no checkpoint,
// and would seem to be none.
func TestRecommendationSurvivesAStartWithoutUsage(t *testing.T) {
	c := newCluster(t, append(workload("old", "app"), workload("new", "app")...)...)
	v := c.vpa("old")
	v.Status.Recommendation = &vpav1.RecommendedPodResources{ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: amountsOf("1", "1Gi")}}}
	require.NoError(t, c.api.Status().Update(t.Context(), v))
	c.fails = errors.New("no metrics yet")
	c.cycle()
	c.cycle()
	require.Equal(t, []string{"new"}, c.statuses)
	c.fails = nil
	c.cycle()
	require.Equal(t, []string{"new", "old"}, c.statuses)
}

func TestCanceledCycleLogsNoFailures(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	ctx, cancel := context.WithCancel(t.Context())
	c.fault = func(verb string, _ client.Object) error {
		if strings.Contains(verb, "PodList") {
			cancel()
		}
		return nil
	}
	c.fails = errors.New("context canceled")
	c.RunOnce(ctx)
	require.Zero(t, c.count("canceled"))
	require.Zero(t, c.count("postponed to the next cycle"))
	require.Empty(t, c.statuses)
}

func TestAVPADeletedMidCycleIsNoError(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.fault = func(verb string, _ client.Object) error {
		if verb == "status" {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "verticalpodautoscalers"}, "a")
		}
		return nil
	}
	c.cycle("a app")
	require.Zero(t, c.count("writing the status"))
}

// TestNewRulesApplyWhileVPAsCannotBeListed: what is evaluated by new rules must have been chosen
// from them.
func TestNewRulesApplyWhileVPAsCannotBeListed(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.cycle("a app")
	more, err := policy.Load(policy.Options{Cache: &compiledSets, Params: map[string]string{"podMinimum.cpu": "5000"}})
	require.NoError(t, err)
	c.Rules = func() *compile.Rulebook { return more }
	c.fault = func(verb string, _ client.Object) error {
		if strings.Contains(verb, "VerticalPodAutoscalerList") {
			return errors.New("no")
		}
		return nil
	}
	c.cycle()
	require.Equal(t, "5", c.vpa("a").Status.Recommendation.ContainerRecommendations[0].Target.Cpu().String())
}

func TestFailedRuleIsReportedByItsVPA(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	broken := brokenRules(t)
	c.Rules = func() *compile.Rulebook { return broken }
	for range 3 {
		c.cycle("a app")
	}
	require.Equal(t, 1, c.count("rule failed"))
	i := indexOf(c.vpa("a"), vpav1.RulesApplied)
	condition := c.vpa("a").Status.Conditions[i]
	require.Equal(t, []string{"False", "RulesFailed"}, []string{string(condition.Status), condition.Reason})
	require.Contains(t, condition.Message, "what they would have set is as before: container-mode/mode-off; digest")
}
