package backtest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
)

// Regression: an older VPA in mode Off, which admission ignores, ended boosts a cycle after a younger
// one had given them, and without the pipeline that a VPA pins they never ended.
func TestBoostsEndByAVPAThatAdmissionUses(t *testing.T) {
	const boost = "updatePolicy: {updateMode: Initial}\n  startupBoost: {cpu: {type: Factor, factor: 2, durationSeconds: 3600}}"
	workload := strings.Replace(deployment("shop", "Initial", "{cpu: 1, memory: 1Gi}", "{}"), `updatePolicy: {updateMode: "Initial", minReplicas: 1}`, boost, 1)
	young := strings.Replace(workload, "VerticalPodAutoscaler\nmetadata: {", "VerticalPodAutoscaler\nmetadata: {creationTimestamp: '2025-01-02T00:00:00Z', ", 1)
	const old = `
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: old, namespace: web, creationTimestamp: "2025-01-01T00:00:00Z"}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}, updatePolicy: {updateMode: "Off"}}
`
	for name, manifests := range map[string][]string{
		"one VPA":                         {workload},
		"beside an older one in mode Off": {young, old},
		"without the pinned pipeline":     {strings.Replace(workload, "VerticalPodAutoscaler\nmetadata: {", "VerticalPodAutoscaler\nmetadata: {annotations: {rules.celvpa.dev/pipeline: gone}, ", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: map[string]bool{"CPUStartupBoost": true}})
			require.NoError(t, err)
			w := newWorld(t, manifests...)
			w.options.Points = 20
			w.usage(pod("shop", 0), 0, day, 5*time.Minute, always(0.1), always(100<<20))
			report, notes := w.runNoted(Candidate{Name: "boosts", Book: book})
			c := of(t, report, "boosts").Containers[0]
			require.Equal(t, 1, c.Resizes, notes)
			for _, e := range c.Series.Events {
				if e.Type == Resized {
					require.WithinDuration(t, epoch.Add(time.Hour), e.At, time.Minute)
					require.InDelta(t, 2, *e.CPU.From, 1e-9)
				}
			}
		})
	}
}

// Regression: whatever the number of pods, one boost of a workload ended in a minute.
func TestBoostsEndWithinTheBudgetOfTheWorkload(t *testing.T) {
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: map[string]bool{"CPUStartupBoost": true}})
	require.NoError(t, err)
	w := newWorld(t, strings.Replace(deployment("shop", "Initial", "{cpu: 1, memory: 1Gi}", "{}"), `updatePolicy: {updateMode: "Initial", minReplicas: 1}`,
		"updatePolicy: {updateMode: Initial}\n  startupBoost: {cpu: {type: Factor, factor: 2, durationSeconds: 3600}}", 1))
	w.options.Points = 20
	for n := range 8 {
		w.usage(pod("shop", n), 0, day, 5*time.Minute, always(0.1), always(100<<20))
	}
	report, notes := w.runNoted(Candidate{Name: "boosts", Book: book})
	c := of(t, report, "boosts").Containers[0]
	require.Equal(t, 8, c.Resizes, notes)
	for _, e := range c.Series.Events {
		if e.Type == Resized {
			require.WithinDuration(t, epoch.Add(time.Hour), e.At, 2*time.Minute, "half of them at a time")
		}
	}
}

// Regression: ends of boosts and updates each had a budget of their own. Memory that the end of a
// boost leaves to the next cycle must not double the number of pods that are disrupted.
func TestEndsOfBoostsShareTheBudgetWithUpdates(t *testing.T) {
	book, err := policy.Load(policy.Options{Cache: &compiledSets, Gates: map[string]bool{"CPUStartupBoost": true}})
	require.NoError(t, err)
	w := newWorld(t, strings.Replace(deployment("shop", "Recreate", "{cpu: 1, memory: 1Gi}", "{}"), `updatePolicy: {updateMode: "Recreate", minReplicas: 1}`,
		"updatePolicy: {updateMode: Recreate}\n  startupBoost: {cpu: {type: Factor, factor: 2, durationSeconds: 3600}}", 1))
	w.options.Points = 20
	for n := range 8 {
		w.usage(pod("shop", n), 0, day, 5*time.Minute, always(0.1), always(2<<30))
	}
	report, notes := w.runNoted(Candidate{Name: "boosts", Book: book})
	disrupted := map[time.Time]int{}
	kinds := map[EventType]int{}
	for _, e := range of(t, report, "boosts").Containers[0].Series.Events {
		if e.Type == Resized || e.Type == Evicted {
			disrupted[e.At]++
			kinds[e.Type]++
		}
	}
	require.Positive(t, kinds[Resized], notes)
	require.Positive(t, kinds[Evicted], notes)
	for at, n := range disrupted {
		require.LessOrEqual(t, n, 4, at)
	}
}
