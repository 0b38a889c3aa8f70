package backtest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// shippedPipelines are the pipelines that ship, each as a policy.
var shippedPipelines = sync.OnceValue(func() (out []Candidate) {
	for _, pipeline := range []string{"default", "follow", "careful"} {
		book, err := policy.Load(policy.Options{Pipeline: pipeline, Cache: &compiledSets})
		if err != nil {
			panic(err)
		}
		out = append(out, Candidate{Name: pipeline, Book: book})
	}
	return out
})

// TestOddHistories leave each pipeline within the bounds of the VPA, without a failure of a rule, and with a reason for each change.
func TestOddHistories(t *testing.T) {
	const minutes = 5 * time.Minute
	one := pod("shop", 0)
	steady := func(w *world, begin, length time.Duration) {
		w.usage(one, begin, length, minutes, always(0.25), always(3e8))
	}
	for name, tt := range map[string]struct {
		usage func(w *world)
		fails string
	}{
		"an hour": {usage: func(w *world) { steady(w, 0, time.Hour) }},
		"a sample": {usage: func(w *world) { steady(w, 0, 0) },
			fails: "the history has workloads of the manifests at one time only, 2026-01-01T00:00:00Z: nothing was replayed"},
		"two samples": {usage: func(w *world) { steady(w, 0, minutes) }},
		"gaps of days": {usage: func(w *world) {
			for begin := time.Duration(0); begin < 12*day; begin += 4 * day {
				steady(w, begin, time.Hour)
			}
		}},
		"a gap longer than memory": {usage: func(w *world) { steady(w, 0, day); steady(w, 20*day, day) }},
		"constant zero":            {usage: func(w *world) { w.usage(one, 0, 3*day, minutes, always(0), always(0)) }},
		"CPU alone":                {usage: func(w *world) { w.usage(one, 0, 3*day, minutes, always(0.25), nil) }},
		"memory alone":             {usage: func(w *world) { w.usage(one, 0, 3*day, minutes, nil, always(3e8)) }},
		"a step of 100 times": {usage: func(w *world) {
			w.usage(one, 0, 4*day, minutes, func(at time.Duration) float64 { return 0.05 * (1 + 99*step01(at > 2*day)) },
				func(at time.Duration) float64 { return 5e7 * (1 + 99*step01(at > 2*day)) })
		}},
		"a step down of 100 times": {usage: func(w *world) {
			w.usage(one, 0, 4*day, minutes, func(at time.Duration) float64 { return 5 - 4.95*step01(at > 2*day) },
				func(at time.Duration) float64 { return 5e9 - 4.95e9*step01(at > 2*day) })
		}},
		"a memory leak": {usage: func(w *world) {
			w.usage(one, 0, 4*day, minutes, always(0.25), func(at time.Duration) float64 { return 1e8 + 8e8*math.Mod(at.Hours(), 30)/3 })
		}},
		"a saw of 100 times": {usage: func(w *world) {
			w.usage(one, 0, 3*day, minutes, func(at time.Duration) float64 { return 0.05 + 5*step01(int(at/minutes)%2 == 0) }, always(3e8))
		}},
		"times that go back": {usage: func(w *world) {
			for at := 2 * day; at >= 0; at -= minutes {
				w.usage(one, at, 0, minutes, always(0.25), always(3e8))
			}
			steady(w, 12*time.Hour, 3*time.Hour) // once more
		}},
		"times before the pod": {usage: func(w *world) {
			steady(w, day, 2*day)
			w.add(usagefile.Series{Pod: one, Container: "app", Kind: usagefile.OOM}, epoch.Add(-day).UnixNano(), 4e8)
		}},
		"more than there is": {usage: func(w *world) {
			steady(w, 0, 2*day)
			w.add(usagefile.Series{Pod: one, Container: "app", Kind: usagefile.CPU}, epoch.Add(day).UnixNano()+1, math.MaxInt64)
			w.add(usagefile.Series{Pod: one, Container: "app", Kind: usagefile.Memory}, epoch.Add(day).UnixNano()+1, math.MaxInt64)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, bounded := range []bool{false, true} {
				w := newWorld(t, deployment("shop", "InPlaceOrRecreate", "{cpu: 1, memory: 1Gi}", "{memory: 1Gi}"))
				least, most := corev1.ResourceList{}, corev1.ResourceList{}
				if bounded {
					least = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("200Mi")}
					most = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi")}
					w.manifests[0] = strings.TrimSuffix(w.manifests[0], "\n") + `
  resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: 100m, memory: 200Mi}, maxAllowed: {cpu: 2, memory: 2Gi}}]}
`
				}
				w.options.Points, w.options.Interval = 20, minutes
				var mu sync.Mutex
				var broken []string
				seen := map[string]int{}
				w.options.Recommended = func(policy string, at time.Time, v *vpav1.VerticalPodAutoscaler) {
					mu.Lock()
					defer mu.Unlock()
					seen[policy]++
					for _, c := range v.Status.Recommendation.ContainerRecommendations {
						if why := outOfOrder(c, least, most); why != "" && len(broken) < 10 {
							broken = append(broken, fmt.Sprintf("%s at %s: %s", policy, at, why))
						}
					}
				}
				tt.usage(w)
				set, err := manifests.Read([]string{manifests.Stdin}, strings.NewReader(w.manifests[0]))
				require.NoError(t, err)
				cluster, err := simulate.Load(set, shippedPipelines()[0].Book, simulate.At(epoch))
				require.NoError(t, err)
				require.NoError(t, w.store.Seal())
				report, notes, err := Run(context.Background(), cluster, w.store, shippedPipelines(), w.options)
				if tt.fails != "" {
					require.ErrorContains(t, err, tt.fails)
					return
				}
				require.NoError(t, err)
				require.Empty(t, broken)
				require.NotContains(t, strings.Join(notes, "\n"), "its values are left as they were", "a rule failed")
				for _, c := range shippedPipelines() {
					require.NotZero(t, seen[c.Name], "%s recommends nothing", c.Name)
					of := of(t, report, c.Name).Containers[0]
					require.NotEmpty(t, of.Series.Causes, c.Name)
					for _, cause := range of.Series.Causes {
						require.NotEmpty(t, cause.Rules, "%s at %s", c.Name, cause.At)
					}
					for _, event := range of.Series.Events {
						if event.Type == Evicted || event.Type == Resized {
							require.NotEmpty(t, event.Rule+event.Reason, "%s at %s", c.Name, event.At)
						}
					}
				}
			}
		})
	}
}

// outOfOrder says what is wrong with a recommendation; empty = nothing.
func outOfOrder(c vpav1.RecommendedContainerResources, least, most corev1.ResourceList) string {
	for name, target := range c.Target {
		lower, upper := c.LowerBound[name], c.UpperBound[name]
		if target.Sign() < 0 || lower.Cmp(target) > 0 || target.Cmp(upper) > 0 {
			return fmt.Sprintf("%s is %s, with bounds %s and %s", name, target.String(), lower.String(), upper.String())
		}
		for _, amount := range []resource.Quantity{lower, target, upper} {
			if floor, set := least[name]; set && amount.Cmp(floor) < 0 {
				return fmt.Sprintf("%s of %s is below minAllowed %s", name, amount.String(), floor.String())
			}
			if top, set := most[name]; set && amount.Cmp(top) > 0 {
				return fmt.Sprintf("%s of %s is above maxAllowed %s", name, amount.String(), top.String())
			}
		}
	}
	return ""
}
