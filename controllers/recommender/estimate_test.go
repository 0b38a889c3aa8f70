package recommender

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func shippedRules(t testing.TB) *compile.Rulebook {
	t.Helper()
	book, err := policy.Load(policy.Options{Cache: &compiledSets})
	require.NoError(t, err)
	return book
}

// upstreamsStart is upstream's answer to what was never sampled.
var upstreamsStart = policy.Options{Params: map[string]string{"estimate.minSamples": "0"}}

// watched is what is known of one pod of the given containers after one sample a minute.
func watched(containers []string, minutes int, cpu, memory func(i int) int64) model.View {
	cluster := model.NewCluster(model.UnusedGrace)
	w := cluster.SetWorkload(model.WorkloadID{Namespace: "ns", Name: "v"}, facts.Order{}, "", labels.Everything())
	id := model.PodID{Namespace: "ns", Name: "p"}
	cluster.SetPod(id, model.PodSpec{Labels: map[string]string{"app": "x"}, Containers: containers, Active: true}, start)
	for i := range minutes {
		at := start.Add(time.Duration(i) * time.Minute)
		for _, c := range containers {
			if cpu != nil {
				cluster.AddSample(model.Sample{Pod: id, Container: c, Resource: model.CPU, Amount: cpu(i), At: at}, at)
			}
			cluster.AddSample(model.Sample{Pod: id, Container: c, Resource: model.Memory, Amount: memory(i), At: at}, at)
		}
	}
	return w.View()
}

// aVPA is one with a policy.
func aVPA(policies ...vpav1.ContainerResourcePolicy) *vpav1.VerticalPodAutoscaler {
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "v", ResourceVersion: "1"}}
	if len(policies) > 0 {
		v.Spec.ResourcePolicy = &vpav1.PodResourcePolicy{ContainerPolicies: policies}
	}
	return v
}

// amounts are of one container, in milli-cores and bytes.
type amounts struct{ cpu, memory int64 }

func always(n int64) func(int) int64 { return func(int) int64 { return n } }

// TestRecommendationsMatchUpstreamToTheDigit holds the golden vectors of UPSTREAM.md §2.13, with
// upstream's answer to what was never sampled.
func TestRecommendationsMatchUpstreamToTheDigit(t *testing.T) {
	const mi = 1 << 20

	tests := []struct {
		name                 string
		containers           int
		minutes              int
		cpu, memory          func(int) int64
		target, lower, upper amounts
	}{
		{"no samples, one container", 1, 0, nil, nil, amounts{25, 262144000}, amounts{25, 262144000}, amounts{25, 262144000}},
		{"no samples, three containers", 3, 0, nil, nil, amounts{8, 87381333}, amounts{8, 87381333}, amounts{8, 87381333}},
		{"one sample", 1, 1, always(100), always(200 * mi), amounts{126, 262144000}, amounts{25, 262144000}, amounts{100000000000000, 100000000000000}},
		{"two samples", 1, 2, always(100), always(200 * mi), amounts{126, 262144000}, amounts{25, 262144000}, amounts{181566, 357589164680}},
		{"five minutes", 1, 5, always(100), always(200 * mi), amounts{126, 262144000}, amounts{68, 262144000}, amounts{45486, 89583406280}},
		{"one hour", 1, 60, always(100), always(200 * mi), amounts{126, 262144000}, amounts{120, 262144000}, amounts{3201, 6304780788}},
		{"one day", 1, 1440, always(100), always(200 * mi), amounts{126, 262144000}, amounts{125, 262144000}, amounts{252, 496479408}},
		{"one day of 1 core and 1Gi", 1, 1440, always(1000), always(1024 * mi), amounts{1168, 1238659775}, amounts{1165, 1236184450}, amounts{2336, 2478180328}},
		{"eight days of 1 core and 1Gi", 1, 8 * 1440, always(1000), always(1024 * mi), amounts{1168, 1238659775}, amounts{1167, 1238350141}, amounts{1314, 1393505688}},
		{"one day of ramp", 1, 1440, func(i int) int64 { return int64(i) }, func(i int) int64 { return 1e6 * int64(i+1) }, amounts{1554, 1738144563}, amounts{975, 1734671072}, amounts{3287, 3477497009}},
		{"eight days of daily ramp", 1, 8 * 1440, func(i int) int64 { return int64(i % 1440) }, func(i int) int64 { return 1e8 + 1e6*int64(i%1440) }, amounts{1554, 1836551791}, amounts{976, 1836092699}, amounts{1848, 2066140694}},
		{"ten minutes of memory alone", 1, 10, nil, always(1e9), amounts{25, 1168723596}, amounts{25, 262144000}, amounts{25, 100000000000000}},
		{"ten minutes with a first memory sample of zero", 1, 10, always(500), func(i int) int64 { return int64(min(i, 1)) * 1e9 }, amounts{587, 262144000}, amounts{436, 262144000}, amounts{94507, 1851500000}},
	}
	book, err := policy.Load(upstreamsStart)
	require.NoError(t, err)
	plan := book.Default()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			names := []string{"a", "b", "c"}[:tt.containers]
			result := Recommend(plan, aVPA(), watched(names, tt.minutes, tt.cpu, tt.memory), false)
			require.Empty(t, result.Failed)
			got := result.Recommendations
			require.Len(t, got, tt.containers)
			for _, r := range got {
				require.Equal(t, tt.target, amounts{r.Target.Cpu().MilliValue(), r.Target.Memory().Value()}, "target")
				require.Equal(t, tt.lower, amounts{r.LowerBound.Cpu().MilliValue(), r.LowerBound.Memory().Value()}, "lower bound")
				require.Equal(t, tt.upper, amounts{r.UpperBound.Cpu().MilliValue(), r.UpperBound.Memory().Value()}, "upper bound")
				require.Equal(t, r.Target, r.UncappedTarget)
			}
		})
	}
}

// TestAVPAMultipliesItsRecommendation by an annotation, as the cookbook's recipe has it.
func TestAVPAMultipliesItsRecommendation(t *testing.T) {
	book, err := policy.Load(policy.Options{Path: "../../examples/cookbook/factor.yaml", Cache: &compiledSets})
	require.NoError(t, err)
	milli := func(factor string) (int64, int) {
		v := aVPA()
		if factor != "" {
			v.Annotations = map[string]string{"example.com/factor": factor}
		}
		out := Recommend(book.For(document.Subject{}).Plan, v, watched([]string{"a"}, 1440, always(1000), always(1<<30)), false)
		return out.Recommendations[0].Target.Cpu().MilliValue(), len(out.Failed)
	}
	for factor, want := range map[string]int64{"": 1168, "1": 1168, "1.5": 1752, "0.5": 584, "-1": 1168} {
		got, failed := milli(factor)
		require.Equal(t, want, got, factor)
		require.Zero(t, failed, factor)
	}
	got, failed := milli("much")
	require.Equal(t, int64(1168), got)
	require.Equal(t, 8, failed, "once for each bound and resource")
}
