package recommender

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

func TestBoundsMayDriftByTheTolerance(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	status := func(change func(*vpav1.VerticalPodAutoscalerStatus)) *vpav1.VerticalPodAutoscalerStatus {
		one := &vpav1.VerticalPodAutoscalerStatus{Recommendation: &vpav1.RecommendedPodResources{
			ContainerRecommendations: []vpav1.RecommendedContainerResources{{ContainerName: "app", Target: list("1", "1Gi"), UncappedTarget: list("1", "1Gi"), LowerBound: list("500m", "512Mi"), UpperBound: list("2", "2Gi")}},
			PodRecommendation:        &vpav1.RecommendedResources{Target: list("1", "1Gi"), LowerBound: list("500m", "512Mi"), UpperBound: list("2", "2Gi")},
		}}
		if change != nil {
			change(one)
		}
		return one
	}
	app := func(s *vpav1.VerticalPodAutoscalerStatus) *vpav1.RecommendedContainerResources {
		return &s.Recommendation.ContainerRecommendations[0]
	}
	for name, tt := range map[string]struct {
		change func(*vpav1.VerticalPodAutoscalerStatus)
		near   bool
	}{
		"nothing":                   {near: true},
		"a bound by 1%":             {func(s *vpav1.VerticalPodAutoscalerStatus) { app(s).UpperBound = list("2020m", "2Gi") }, true},
		"a bound by more":           {func(s *vpav1.VerticalPodAutoscalerStatus) { app(s).UpperBound = list("2021m", "2Gi") }, false},
		"a lower bound by more":     {func(s *vpav1.VerticalPodAutoscalerStatus) { app(s).LowerBound = list("500m", "500Mi") }, false},
		"the uncapped target":       {func(s *vpav1.VerticalPodAutoscalerStatus) { app(s).UncappedTarget = list("2", "1Gi") }, false},
		"a bound that is withdrawn": {func(s *vpav1.VerticalPodAutoscalerStatus) { delete(app(s).UpperBound, "cpu") }, false},
		"a bound of the pod": {func(s *vpav1.VerticalPodAutoscalerStatus) {
			s.Recommendation.PodRecommendation.LowerBound = list("1m", "512Mi")
		}, false},
		"no bounds of the pod":       {func(s *vpav1.VerticalPodAutoscalerStatus) { s.Recommendation.PodRecommendation = nil }, false},
		"another container":          {func(s *vpav1.VerticalPodAutoscalerStatus) { app(s).ContainerName = "other" }, false},
		"no container":               {func(s *vpav1.VerticalPodAutoscalerStatus) { s.Recommendation.ContainerRecommendations = nil }, false},
		"another observedGeneration": {func(s *vpav1.VerticalPodAutoscalerStatus) { s.ObservedGeneration = new(int64) }, false},
		"no recommendation":          {func(s *vpav1.VerticalPodAutoscalerStatus) { s.Recommendation = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.near, (&State{tolerance: resource.MustParse("0.01")}).tolerates(status(nil), status(tt.change)))
			require.False(t, (&State{}).tolerates(status(nil), status(tt.change)), "by default everything is written")
		})
	}
}

// TestAToleranceIsExact, also where 64-bit floats are not, and where 64-bit integers end.
func TestAToleranceIsExact(t *testing.T) {
	for _, tt := range []struct {
		fraction, was, is string
		within            bool
	}{
		{"0.01", "2", "2020m", true},
		{"0.01", "2", "2020000001n", false},
		{"0.01", "2", "1980m", true},
		{"0.01", "2", "1979999999n", false},
		{"0.1", "9007199254740990", "9907919180215089", true},
		{"0.1", "9007199254740990", "9907919180215090", false},
		{"0.5", "9E", "4500000000000000000", true},
		{"0.5", "9E", "4499999999999999999", false},
		{"0.5", "0", "0", true},
		{"0.5", "0", "1n", false},
		{"0.5", "-2", "-3", true},
		{"0.5", "-2", "-3001m", false},
	} {
		require.Equal(t, tt.within, within(resource.MustParse(tt.fraction), resource.MustParse(tt.was), resource.MustParse(tt.is)), "%+v", tt)
	}
}

// TestDriftingBoundsAreNotWrittenWithATolerance, and a new target is.
func TestDriftingBoundsAreNotWrittenWithATolerance(t *testing.T) {
	for name, tolerance := range map[string]string{"every digit": "0", "bounds may be off": "0.9"} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, append(workload("web", "app"), checkpointOf("web", "app", 1000))...)
			c.tolerance = resource.MustParse(tolerance)
			for range 4 { // a restored history of one core, and samples of one
				c.cycle("web app")
			}
			require.NotNil(t, c.vpa("web").Status.Recommendation)
			if c.tolerance.IsZero() {
				require.Greater(t, len(c.statuses), 2)
			} else {
				require.LessOrEqual(t, len(c.statuses), 2)
			}
		})
	}
}

// TestVPAsWithoutAStatusAreServedFirst, with more of the cycle than others have, and none of it for
// checkpoints.
func TestVPAsWithoutAStatusAreServedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.slow, c.Interval = 30*time.Millisecond, time.Second
		var updates []*Update
		for i := range 40 {
			updates = append(updates, &Update{First: i%2 == 0, Urgent: true, Workload: &Workload{VPA: aVPA()}, Status: &vpav1.VerticalPodAutoscalerStatus{}})
		}
		begin := time.Now()
		c.writeStatuses(t.Context(), updates, begin.Add(60*time.Millisecond), begin.Add(10*time.Second))
		first, others := 0, 0
		for _, u := range updates {
			switch {
			case u.First && u.Workload.waiting.IsZero():
				first++
			case !u.First && u.Workload.waiting.IsZero():
				others++
			}
		}
		require.Equal(t, 20, first)
		require.LessOrEqual(t, others, c.Workers, "those that began before the end of the others' time was noticed")
		require.False(t, c.crowded)
		c.writeStatuses(t.Context(), updates[:20], begin, time.Now().Add(60*time.Millisecond))
		require.True(t, c.crowded)
	})
}

// TestARefusedFirstStatusHoldsUpNoCheckpoints: it was postponed once, and has been refused since.
func TestARefusedFirstStatusHoldsUpNoCheckpoints(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.fault = func(verb string, _ client.Object) error {
		if verb == "status" {
			return errors.New("refused")
		}
		return nil
	}
	c.cycle()
	c.workloads[model.WorkloadID{Namespace: "ns", Name: "a"}].waiting = time.Now().Add(-time.Hour)
	c.cycle("a app")
	require.False(t, c.crowded)
	require.Zero(t, testutil.ToFloat64(postponedWrites.WithLabelValues("status")))
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints())
}

// TestCheckpointsWaitForFirstStatuses, and count as postponed.
func TestCheckpointsWaitForFirstStatuses(t *testing.T) {
	c := newCluster(t, workload("a", "app")...)
	c.cycle("a app")
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints())
	waiting := func() float64 { return testutil.ToFloat64(postponedWrites.WithLabelValues("checkpoint")) }
	for i := range c.usage {
		c.usage[i].At = time.Now()
	}
	c.loadSamples(t.Context())
	c.crowded = true
	c.maintainCheckpoints(t.Context(), time.Now(), nil)
	require.Equal(t, map[string]int{"a-app": 1}, c.checkpoints())
	require.Equal(t, 1.0, waiting())
	c.crowded = false
	c.maintainCheckpoints(t.Context(), time.Now(), nil)
	require.Equal(t, map[string]int{"a-app": 2}, c.checkpoints())
	require.Zero(t, waiting())
}

// TestNamespaceThatCreatesVPAsAllTheTimeDelaysNoOther: 16 and 24 a second, where 20 writes a second are possible.
func TestNamespaceThatCreatesVPAsAllTheTimeDelaysNoOther(t *testing.T) {
	for _, perSecond := range []int{16, 24} {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, workload("victim", "app")...)
				c.Interval, c.Workers = 5*time.Second, 1
				for made := range 6 {
					c.slow = 0
					for i := range 5 * perSecond {
						v := workload(fmt.Sprintf("loud%d-%d", made, i))[0].(*vpav1.VerticalPodAutoscaler)
						v.Namespace = "loud"
						require.NoError(t, c.api.Create(t.Context(), v))
					}
					begin := time.Now()
					c.slow, c.statuses = 50*time.Millisecond, nil
					c.cycle("victim app")
					require.Contains(t, c.statuses, "victim", "cycle %d", made)
					require.Greater(t, len(c.statuses), 40, "the others are served, too")
					require.LessOrEqual(t, time.Since(begin), c.Interval, "the next cycle is late")
					time.Sleep(c.Interval - time.Since(begin))
				}
				require.GreaterOrEqual(t, c.checkpoints()["victim-app"], 4, "the victim's checkpoint waited for more than three intervals")
			})
		})
	}
}

// TestNamespacesTakeTurnsInCheckpoints: each container of a namespace is a turn of it.
func TestNamespacesTakeTurnsInCheckpoints(t *testing.T) {
	objects, quiet := append(workload("a", "app", "sidecar"), workload("b", "app")...), workload("q", "app")
	for _, o := range quiet {
		o.SetNamespace("quiet")
	}
	c := newCluster(t, append(objects, quiet...)...)
	c.Checkpoints = nil
	for _, name := range []string{"ns a app", "ns a sidecar", "ns b app", "quiet q app"} {
		of := strings.Fields(name)
		c.usage = append(c.usage, model.Sample{Pod: model.PodID{Namespace: of[0], Name: of[1]}, Container: of[2], Resource: model.CPU, Amount: 1000, At: time.Now()})
	}
	c.RunOnce(t.Context())
	order := func() (out []string) {
		for _, due := range c.dueCheckpoints(time.Now()) {
			out = append(out, due.w.VPA.Name+"-"+due.container)
		}
		return out
	}
	require.Equal(t, []string{"a-app", "q-app", "a-sidecar", "b-app"}, order())
	c.workloads[model.WorkloadID{Namespace: "ns", Name: "a"}].writtenAt = time.Now()
	require.Equal(t, []string{"b-app", "q-app", "a-app", "a-sidecar"}, order(), "b has waited longer than a")
	c.checkpointTurns.Served("ns")
	require.Equal(t, []string{"q-app", "b-app", "a-app", "a-sidecar"}, order())
}
