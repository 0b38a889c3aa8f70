package recommender

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// horizon is how far falls are predicted by the shipped rules.
var horizon = facts.DefaultWindow().Length()

// TestWhyATargetDoesNotComeDown lets usage stay as it is for as long as falls are predicted, and
// compares when targets really drop.
func TestWhyATargetDoesNotComeDown(t *testing.T) {
	book := shippedRules(t)
	falls, seeds := 0, cases(10)
	for seed := range int64(seeds) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewSource(seed))
			w := newWorldOf(t, book)
			w.edit(func(v *vpav1.VerticalPodAutoscaler) {
				v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{
					ContainerName: "*", MinAllowed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0.5Gi")},
				}}}
			})
			var pods []model.PodID
			for p := range 1 + r.Intn(3) {
				pods = append(pods, w.pod(fmt.Sprint(p), "a"))
			}
			last := map[model.PodID][2]int64{}
			sample := func(id model.PodID, at time.Time) {
				for resource, amount := range last[id] {
					w.Add([]model.Sample{{Pod: id, Container: "a", Resource: model.Resource(resource), Amount: amount, At: at}}, at)
				}
			}
			now := start
			for range 60 * (30 + r.Intn(60)) { // it was busy, and pods peaked by more or less
				now = now.Add(time.Minute)
				for _, id := range pods {
					last[id] = [2]int64{1000 + r.Int63n(500), (1 + r.Int63n(3)) << 30}
					sample(id, now)
				}
			}
			quiet := 36 * time.Hour
			for range int(quiet / time.Minute) { // and is idle since, which closed the windows of then
				now = now.Add(time.Minute)
				for _, id := range pods {
					last[id] = [2]int64{20 + r.Int63n(5), 100 << 20}
					sample(id, now)
				}
			}
			known := w.explained(now).Containers[0]
			type fallen struct {
				at     time.Time
				target string
			}
			seen := map[corev1.ResourceName][]fallen{}
			before := recommended(w)
			for at := now.Add(time.Minute); !at.After(now.Add(horizon)); at = at.Add(time.Minute) {
				for _, id := range pods {
					sample(id, at)
				}
				after := recommended(w)
				for name, q := range after {
					if q.Cmp(before[name]) != 0 {
						require.Negative(t, q.Cmp(before[name]), "%s rises at %s", name, at)
						seen[name] = append(seen[name], fallen{at, q.String()})
					}
				}
				before = after
			}
			for name, usage := range map[corev1.ResourceName]answers.Usage{corev1.ResourceCPU: known.CPU, corev1.ResourceMemory: known.Memory} {
				want := seen[name]
				if len(want) > 2 {
					want = []fallen{want[0], want[len(want)-1]}
				}
				var got []fallen
				for _, f := range usage.Falls {
					got = append(got, fallen{f.At, f.Target})
				}
				require.Equal(t, want, got, name)
				falls += len(got)
			}
		})
	}
	require.Greater(t, falls, 2*seeds, "most targets fall, and not at once")
}

// recommended is the target of the only container.
func recommended(w *world) corev1.ResourceList {
	of := w.workloads[model.WorkloadID{Namespace: "ns", Name: "v"}]
	return w.recommend(of, of.model.View(), false).Recommendations[0].Target
}

func TestNothingFallsWithoutUsageThatGoesOn(t *testing.T) {
	w := newWorld(t, policy.Options{})
	id := w.pod("p", "a")
	w.see()
	for n := range 60 {
		w.cpu(id, "a", 3000, time.Duration(n)*time.Minute)
	}
	w.cpu(id, "a", 1, time.Hour)
	w.memory(id, "a", 4<<30, time.Hour)
	now := start.Add(time.Hour)
	one := w.explained(now).Containers[0]
	require.NotEmpty(t, one.CPU.Falls)
	require.Empty(t, one.Memory.Falls, "the peak comes again")
	last := one.CPU.Falls[len(one.CPU.Falls)-1]
	require.Equal(t, "25m", last.Target)
	require.True(t, last.At.After(now) && last.At.Before(now.Add(horizon)))

	w.cluster.KeepPods(nil)
	one = w.explained(now).Containers[0]
	require.False(t, one.Present)
	require.Empty(t, one.CPU.Falls, "no sample follows")
	require.Empty(t, one.CPU.Last)
	require.Equal(t, "3027m", percentOf(one.CPU, "90"))
}

// TestFallsArePredictedForAsLongAsUsageIsRemembered: they were for eight days, whatever a VPA says.
func TestFallsArePredictedForAsLongAsUsageIsRemembered(t *testing.T) {
	falls := func(days int64) []answers.Fall {
		w := newWorld(t, policy.Options{Gates: map[string]bool{"PerVPAConfig": true}})
		w.edit(func(v *vpav1.VerticalPodAutoscaler) {
			v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: []vpav1.ContainerResourcePolicy{{ContainerName: "*", MemoryAggregationIntervalCount: &days}}}
		})
		id := w.pod("p", "a")
		for n := range 48 * 60 {
			w.cpu(id, "a", 3000, time.Duration(n)*time.Minute)
		}
		w.cpu(id, "a", 1, 48*time.Hour)
		return w.explained(start.Add(48 * time.Hour)).Containers[0].CPU.Falls
	}
	month := falls(30)
	require.NotEmpty(t, month)
	last := month[len(month)-1]
	require.Equal(t, "25m", last.Target)
	require.Equal(t, month, falls(8))
	days := int64(last.At.Sub(start.Add(48*time.Hour)) / (24 * time.Hour))
	require.Positive(t, days)
	for _, f := range falls(days) {
		require.True(t, f.At.Before(last.At), "usage is forgotten by then")
	}
}
