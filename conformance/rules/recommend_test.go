package rules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
)

func (r *rows) selection(t *testing.T) {
	plan := r.plan(t, policy.Options{})
	for _, row := range []struct{ policy, do, rule string }{
		{"", facts.DoScale, "container-mode/scaled"},
		{"{mode: Auto}", facts.DoScale, "container-mode/scaled"},
		{"{mode: 'Off'}", facts.DoIgnore, "container-mode/mode-off"},
	} {
		trace := &engine.Trace{}
		verdict := plan.Decide(facts.ContainerSelect, facts.SelectFacts(facts.Policy(containerPolicy(t, row.policy))), trace)
		require.Equal(t, row.do, verdict.Do, row.policy)
		require.Equal(t, []string{row.rule}, r.note(trace), row.policy)
	}
}

// usage is a distribution whose percentiles are fractions of one amount.
func usage(amount float64) facts.Histogram {
	return facts.Histogram{Percentile: func(p float64) int64 { return facts.Amount(amount * p) }}
}

func (r *rows) estimate(t *testing.T) {
	day := 24 * time.Hour
	tests := []struct {
		name                        string
		in                          facts.Estimate
		params                      map[string]string
		target, lower, upper, fired string
	}{
		{
			name:   "a percentile, a margin and bounds of one day's confidence",
			in:     facts.Estimate{CPU: usage(1000), Memory: usage(1 << 30), Span: day, Samples: 1440, Containers: 1},
			target: "cpu=1035m memory=1111322787", // 900 + 135; 966367641 + 144955146
			lower:  "cpu=573m memory=616168594",   // 575 × 1.001⁻²
			upper:  "cpu=2184m memory=2346125882", // 1092 × 2
		},
		{
			name:   "few samples count for less than the time they span",
			in:     facts.Estimate{CPU: usage(1000), Memory: usage(1 << 30), Span: day, Samples: 144, Containers: 1},
			target: "cpu=1035m memory=1111322787",
			lower:  "cpu=563m memory=605236298",
			upper:  "cpu=12012m memory=12903692351",
		},
		{
			name:   "nothing known: the minimum, with bounds all the way out only where there is usage",
			in:     facts.Estimate{CPU: usage(0), Memory: usage(0), Containers: 2},
			target: "cpu=12m memory=125Mi",
			lower:  "cpu=12m memory=125Mi",
			upper:  "cpu=12m memory=125Mi",
		},
		{
			name:   "parameters are an operator's",
			in:     facts.Estimate{CPU: usage(1000), Memory: usage(1 << 30), Span: day, Samples: 1440, Containers: 1},
			params: map[string]string{"estimate.targetCPU": "1", "estimate.marginFraction": "0", "estimate.minMemoryMb": "4096", "estimate.confidenceIntervalCPU": "12h"},
			target: "cpu=1 memory=4Gi",
			lower:  "cpu=499m memory=4Gi",
			upper:  "cpu=1425m memory=4Gi",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := r.plan(t, policy.Options{Params: tt.params})
			bounds, trace := facts.NewBounds(), &engine.Trace{}
			require.Empty(t, plan.RunStages(facts.ContainerEstimate, facts.EstimateFacts(tt.in, facts.Policy(nil), bounds), trace))
			r.note(trace)
			require.Equal(t, tt.target, show(facts.ResourceList(bounds[0])), "target")
			require.Equal(t, tt.lower, show(facts.ResourceList(bounds[1])), "lower bound")
			require.Equal(t, tt.upper, show(facts.ResourceList(bounds[2])), "upper bound")
			require.Equal(t, tt.target, show(facts.ResourceList(bounds[3])), "uncapped target")
		})
	}
}

func (r *rows) recommend(t *testing.T) {
	global := map[string]string{"container-caps.maxCPU": "800m", "container-caps.maxMemory": "2Gi"}
	tests := []struct {
		name     string
		policy   string
		params   map[string]string
		want     string // of target, lower and upper bound
		uncapped string
		fired    []string
	}{
		{name: "no policy", want: "cpu=1 memory=4Gi", uncapped: "cpu=1 memory=4Gi"},
		{
			name: "below the minimum", policy: "{minAllowed: {cpu: 2, memory: 5Gi}}",
			want: "cpu=2 memory=5Gi", uncapped: "cpu=1 memory=4Gi",
			fired: []string{"container-caps/policy/min-allowed-cpu", "container-caps/policy/min-allowed-memory"},
		},
		{
			name: "above the maximum", policy: "{maxAllowed: {cpu: 500m, memory: 1Gi}}",
			want: "cpu=500m memory=1Gi", uncapped: "cpu=1 memory=4Gi",
			fired: []string{"container-caps/policy/max-allowed-cpu", "container-caps/policy/max-allowed-memory"},
		},
		{
			name: "the maximum wins over the minimum", policy: "{minAllowed: {cpu: 3}, maxAllowed: {cpu: 2}}",
			want: "cpu=2 memory=4Gi", uncapped: "cpu=1 memory=4Gi",
			fired: []string{"container-caps/policy/min-allowed-cpu", "container-caps/policy/max-allowed-cpu"},
		},
		{name: "a bound of zero is none", policy: "{minAllowed: {cpu: 0}, maxAllowed: {cpu: 0, memory: 0}}", want: "cpu=1 memory=4Gi", uncapped: "cpu=1 memory=4Gi"},
		{
			name: "the global maximum caps what the policy leaves open", params: global,
			want: "cpu=800m memory=2Gi", uncapped: "cpu=1 memory=4Gi",
			fired: []string{"container-caps/global/max-cpu", "container-caps/global/max-memory"},
		},
		{
			name: "a policy's maximum is above the global one", policy: "{maxAllowed: {cpu: 900m}}", params: global,
			want: "cpu=900m memory=2Gi", uncapped: "cpu=1 memory=4Gi",
			fired: []string{"container-caps/policy/max-allowed-cpu", "container-caps/global/max-memory"},
		},
		{
			name: "only memory is controlled", policy: "{controlledResources: [memory]}",
			want: "memory=4Gi", uncapped: "memory=4Gi", fired: []string{"controlled-resources/drop/cpu"},
		},
		{
			name: "an empty list controls nothing", policy: "{controlledResources: [], minAllowed: {cpu: 2}}",
			fired: []string{"controlled-resources/drop/cpu", "controlled-resources/drop/memory"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := r.plan(t, policy.Options{Params: tt.params})
			bounds, trace := facts.NewBounds(), &engine.Trace{}
			for _, b := range bounds {
				b.SetInt("cpu", 1000).SetInt("memory", 4<<30)
			}
			require.Empty(t, plan.RunStages(facts.ContainerRecommend, facts.RecommendFacts(facts.Policy(containerPolicy(t, tt.policy)), bounds), trace))
			require.Equal(t, tt.fired, r.note(trace))
			for i, b := range bounds[:3] {
				require.Equal(t, tt.want, show(facts.ResourceList(b)), facts.BoundNames[i])
			}
			require.Equal(t, tt.uncapped, show(facts.ResourceList(bounds[3])))
		})
	}
}
