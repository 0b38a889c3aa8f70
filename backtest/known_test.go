package backtest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// TestHindsightIsThePeak: the least constant request that usage never exceeds, OOMs of the history
// included.
func TestHindsightIsThePeak(t *testing.T) {
	w := newWorld(t, deployment("shop", "Off", "{cpu: 2, memory: 2Gi}", "{}"))
	w.usage(pod("shop", 0), 0, day, time.Hour, func(since time.Duration) float64 { return 0.1 + 0.7*step01(since == 5*time.Hour) }, always(100<<20))
	w.usage(pod("shop", 1), 0, day, time.Hour, always(0.2), always(50<<20))
	w.add(usagefile.Series{Pod: pod("shop", 1), Container: "app", Kind: usagefile.OOM}, epoch.Add(90*time.Minute).UnixNano(), 200<<20)
	c := of(t, w.run(), Hindsight).Containers[0]
	require.InEpsilon(t, 2*0.8*24, c.CPU.RequestedCoreHours, 1e-12)
	require.InEpsilon(t, 2*24*float64(200<<20+1)/(1<<30), c.Memory.RequestedGiBHours, 1e-12)
	require.Zero(t, c.CPU.OverRequestShare)
	require.Zero(t, c.Memory.OverRequestShare)
	require.Zero(t, c.OOMs)
}

// TestWhatKeepsPodsFromBeingUpdatedIsReported: a single pod under the default of minReplicas was left alone
// throughout, and the report looked as if the policy saved nothing.
func TestWhatKeepsPodsFromBeingUpdatedIsReported(t *testing.T) {
	never := func(manifest string, more ...string) *Obstacle {
		w := newWorld(t, append([]string{manifest}, more...)...)
		w.usage(pod("shop", 0), 0, day, time.Hour, always(0.1), always(100<<20))
		p := of(t, w.run(with(t, Shipped)), Shipped)
		require.Nil(t, p.Containers[0].Series)
		return p.Workloads[0].NeverUpdated
	}
	const requests = "{cpu: 1, memory: 1Gi}"
	require.Equal(t, &Obstacle{"eligibility/too-few-replicas", "The workload has 1 live pod, fewer than minReplicas (2)"},
		never(strings.Replace(deployment("shop", "Recreate", requests, "{}"), "minReplicas: 1", "minReplicas: 2", 1)))
	require.Equal(t, &Obstacle{"update-mode/not-in-this-mode", "Update mode Off leaves running pods alone"}, never(deployment("shop", "Off", requests, "{}")))
	require.Equal(t, "PodDisruptionBudget shop needs 1 healthy pods and has 1",
		never(deployment("shop", "Recreate", requests, "{}"), "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: shop, namespace: web}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: shop}}}}").Reason)
	require.Nil(t, never(deployment("shop", "Recreate", requests, "{}")), "it is evicted")
}

// TestAShortHistoryIsNoted: nothing was evicted in three hours, and nothing said why.
func TestAShortHistoryIsNoted(t *testing.T) {
	run := func(length time.Duration) (*Report, []string) {
		w := newWorld(t, deployment("shop", "Recreate", "{cpu: 1, memory: 1Gi}", "{}"))
		w.usage(pod("shop", 0), 0, length, time.Minute, always(0.1), always(100<<20))
		return w.runNoted(with(t, Shipped))
	}
	r, notes := run(3 * time.Hour)
	require.Equal(t, []string{"The history covers only 3h, and a sample takes 24h to lose half its weight. Recommendations have not settled, and bounds are wide, so few pods are updated."}, notes)
	require.Equal(t, notes[0], r.Modelled[0])
	_, notes = run(day)
	require.Empty(t, notes)
}

// TestAnOOMRaisesMemory: a container that needs more than its limit from the second day on is killed,
// the recommender hears of it, and the pod is replaced by one that has enough.
func TestAnOOMRaisesMemory(t *testing.T) {
	w := newWorld(t, deployment("shop", "Recreate", "{cpu: 100m, memory: 300Mi}", "{memory: 300Mi}"))
	w.options.Points = 20
	w.usage(pod("shop", 0), 0, 2*day, 5*time.Minute, always(0.05), func(since time.Duration) float64 { return 200<<20 + 150<<20*step01(since >= day) })
	r := w.run(with(t, Shipped))
	require.Equal(t, 289, of(t, r, Manifest).Fleet.OOMs, "a kill at each sample")
	c := of(t, r, Shipped).Containers[0]
	require.Positive(t, c.OOMs)
	require.Less(t, c.OOMs, 5)
	var evicted []Event
	for _, e := range c.Series.Events {
		if e.Type == Evicted && !e.At.Before(epoch.Add(day)) {
			evicted = append(evicted, e)
		}
	}
	require.NotEmpty(t, evicted)
	require.Greater(t, *evicted[0].Memory.To, float64(350<<20))
	require.NotEmpty(t, c.Series.Causes)
}

// TestABudgetHoldsEvictionsBack: without one, both pods of a workload are replaced; with one that
// allows none, neither is.
func TestABudgetHoldsEvictionsBack(t *testing.T) {
	evictions := func(budget string) int {
		w := newWorld(t, deployment("shop", "Recreate", "{cpu: 1, memory: 1Gi}", "{}"), budget)
		for n := range 2 {
			w.usage(pod("shop", n), 0, day, 5*time.Minute, always(0.1), always(100<<20))
		}
		return of(t, w.run(with(t, Shipped)), Shipped).Fleet.Evictions
	}
	const budget = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: web}, spec: {selector: {matchLabels: {app: shop}}, minAvailable: "
	require.Equal(t, 2, evictions(""))
	require.Equal(t, 2, evictions(budget+"1}}"))
	require.Equal(t, 0, evictions(budget+"'100%'}}"))
}

// TestEvictionsWaitForTheirWindow, which the replayed time opens and closes.
func TestEvictionsWaitForTheirWindow(t *testing.T) {
	w := newWorld(t, deployment("shop", "Recreate", "{cpu: 1, memory: 1Gi}", "{}"))
	w.options.Points = 20
	for n := range 2 {
		w.usage(pod("shop", n), 0, 2*day, 5*time.Minute, always(0.1), always(100<<20))
	}
	book, err := policy.Load(policy.Options{Path: "../examples/cookbook/window.yaml", Params: map[string]string{"window.open": epoch.Add(30*time.Hour).Format("Mon 15:04-") + "24:00"}})
	require.NoError(t, err)
	r := w.run(with(t, Shipped), Candidate{Name: "window", Book: book})
	first := func(policy string) (at time.Time) {
		for _, e := range of(t, r, policy).Containers[0].Series.Events {
			if e.Type == Evicted && (at.IsZero() || e.At.Before(at)) {
				at = e.At
			}
		}
		require.False(t, at.IsZero(), policy)
		return at
	}
	require.WithinRange(t, first(Shipped), epoch, epoch.Add(29*time.Hour))
	require.WithinRange(t, first("window"), epoch.Add(30*time.Hour), epoch.Add(30*time.Hour+2*time.Minute))
}

// TestResizesInPlaceEvictNobody.
func TestResizesInPlaceEvictNobody(t *testing.T) {
	w := newWorld(t, deployment("shop", "InPlaceOrRecreate", "{cpu: 1, memory: 1Gi}", "{}"))
	w.usage(pod("shop", 0), 0, day, 5*time.Minute, always(0.1), always(100<<20))
	c := of(t, w.run(with(t, Shipped)), Shipped).Containers[0]
	require.Equal(t, 1, c.Resizes)
	require.Zero(t, c.Evictions)
	require.Less(t, c.CPU.RequestedCoreHours, 24.0)
}

// TestNewPodsGetWhatIsRecommendedThen: in mode Initial, only pods that start later do.
func TestNewPodsGetWhatIsRecommendedThen(t *testing.T) {
	w := newWorld(t, deployment("shop", "Initial", "{cpu: 1, memory: 1Gi}", "{}"))
	w.usage(pod("shop", 0), 0, day, 5*time.Minute, always(0.1), always(100<<20))
	w.usage(pod("shop", 1), 12*time.Hour, 12*time.Hour, 5*time.Minute, always(0.1), always(100<<20))
	c := of(t, w.run(with(t, Shipped)), Shipped).Containers[0]
	require.InEpsilon(t, 24+12*0.126, c.CPU.RequestedCoreHours, 0.02)
}

// TestPoliciesThatDecideAlikeShareAReplay, workload by workload.
func TestPoliciesThatDecideAlikeShareAReplay(t *testing.T) {
	w := newWorld(t, deployment("shop", "Recreate", "{cpu: 1, memory: 1Gi}", "{}"))
	w.usage(pod("shop", 0), 0, day, 5*time.Minute, always(0.1), always(100<<20))
	r := w.run(with(t, Upstream), with(t, Shipped), with(t, "wide", "estimate.marginFraction", "1"))
	require.Empty(t, of(t, r, Upstream).SameAs)
	require.Equal(t, Upstream, of(t, r, Shipped).SameAs)
	require.Empty(t, of(t, r, "wide").SameAs)
	require.Equal(t, of(t, r, Upstream).Fleet, of(t, r, Shipped).Fleet)
	require.Greater(t, of(t, r, "wide").Fleet.CPU.RequestedCoreHours, of(t, r, Shipped).Fleet.CPU.RequestedCoreHours)
}

// TestWhatIsLeftOutIsNoted: pods of no workload, workloads without usage, and VPAs without a target.
func TestWhatIsLeftOutIsNoted(t *testing.T) {
	bare, _, _ := strings.Cut(deployment("idle", "Off", "{}", "{}"), "---")
	_, lost, _ := strings.Cut(deployment("lost", "Off", "{}", "{}"), "---")
	w := newWorld(t, deployment("shop", "Off", "{cpu: 1, memory: 1Gi}", "{}"), bare, lost)
	w.usage(pod("shop", 0), 0, time.Hour, 5*time.Minute, always(0.1), always(100<<20))
	w.usage(model.PodID{Namespace: "other", Name: "alone"}, 0, time.Hour, 5*time.Minute, always(0.1), nil)
	report, notes := w.runNoted(with(t, Shipped))
	require.Len(t, report.Policies[0].Containers, 1)
	text := strings.Join(notes, "\n")
	require.Contains(t, text, "ignored usage of 1 pod that no workload in the manifests owns: other/alone")
	require.Contains(t, text, "ignored 1 workload without usage in the history: Deployment web/idle")
	require.Contains(t, text, "Deployment web/lost, the target of VerticalPodAutoscaler web/lost, is not in the manifests")
}

// Regression: a pod belonged to the workload with the longest name whose labels it has, even if another one owns it or would
// generate its name: that one was left out, and its VPA did nothing.
func TestPodsBelongToTheirOwnerNotToWhoeverSharesTheirLabels(t *testing.T) {
	shares := strings.ReplaceAll(deployment("shop-frontend", "Off", "{cpu: 1, memory: 1Gi}", "{}"), "app: shop-frontend}", "team: web}")
	db := strings.ReplaceAll(deployment("db", "Recreate", "{cpu: 1, memory: 1Gi}", "{}"), "app: db}", "team: web, app: db}")
	running := func(id model.PodID, kind, owner string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: " + id.Name + ", namespace: web, labels: {team: web, app: db}, ownerReferences: [{apiVersion: apps/v1, kind: " + kind + ", name: " + owner +
			", controller: true}]}, spec: {nodeName: node, containers: [{name: app, resources: {requests: {cpu: 1, memory: 1Gi}}}]}, status: {phase: Running}}"
	}
	for name, tt := range map[string]struct {
		pod         model.PodID
		kind, owner string
	}{
		"by its name":  {pod("db", 0), "ReplicaSet", "db-7d9f8b6c5d"},
		"by its owner": {model.PodID{Namespace: "web", Name: "other"}, "Deployment", "db"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shares, db, running(tt.pod, tt.kind, tt.owner))
			w.usage(tt.pod, 0, day, 5*time.Minute, always(0.1), always(100<<20))
			w.usage(pod("shop-frontend", 0), 0, day, 5*time.Minute, always(0.1), always(100<<20))
			c := of(t, w.run(with(t, Shipped)), Shipped).Containers
			require.Len(t, c, 2)
			require.Equal(t, "db", c[0].Workload)
			require.Positive(t, c[0].Evictions)
		})
	}
}
