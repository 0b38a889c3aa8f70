package facts_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/rules"
)

// compiledSets are the rule sets that tests have compiled: most options leave most of them as they are.
var compiledSets compile.Cache

func planWith(t *testing.T, o policy.Options) *engine.Plan {
	t.Helper()
	o.Cache = &compiledSets
	book, err := policy.Load(o)
	require.NoError(t, err)
	return book.Default()
}

// ownPlan is the shipped plan with one text of a rule file replaced.
func ownPlan(t *testing.T, file, from, to string) *engine.Plan {
	t.Helper()
	dir := t.TempDir()
	text, err := rules.FS.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), from)
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.Replace(string(text), from, to, 1)), 0o600))
	return planWith(t, policy.Options{Path: dir})
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// shippedWindow is what the shipped rules set: what they leave unset, and how large a sample may be.
var shippedWindow = func() facts.Window {
	w := facts.DefaultWindow()
	w.MaxCPU, w.MaxMemory = 10_000_000, 64<<40
	return w
}()

func TestAContainersMemoryWindowIsItsPolicys(t *testing.T) {
	seconds, count := int32(90), int64(3)
	record := facts.Policy(&vpav1.ContainerResourcePolicy{MemoryAggregationIntervalSeconds: &seconds, MemoryAggregationIntervalCount: &count})

	got, failed := facts.WindowFor(shippedPlan(t), "a", record, nil)
	require.Empty(t, failed)
	require.Equal(t, shippedWindow, got, "the gate is off")

	on := planWith(t, policy.Options{Gates: map[string]bool{"PerVPAConfig": true}, Params: map[string]string{"memory-window.zeroIsPeak": "false"}})
	got, failed = facts.WindowFor(on, "a", record, nil)
	require.Empty(t, failed)
	require.Equal(t, facts.Window{CPUHalfLife: 24 * time.Hour, MemoryHalfLife: 24 * time.Hour, Interval: 90 * time.Second, Count: 3, ClockSkew: time.Hour, MaxCPU: shippedWindow.MaxCPU, MaxMemory: shippedWindow.MaxMemory}, got)
}

func TestAWindowThatRulesDoNotGiveIsUpstreams(t *testing.T) {
	none := facts.Policy(nil)
	all := "set: {window.interval: params.interval, window.count: params.count, window.zeroIsPeak: params.zeroIsPeak}"
	for name, set := range map[string]string{
		"unset":           "unset: [window.interval]",
		"nothing or less": "set: {window.interval: \"duration('0s')\", window.count: '-1'}",
	} {
		t.Run(name, func(t *testing.T) {
			plan := ownPlan(t, "memory-window.yaml", all, set)
			got, failed := facts.WindowFor(plan, "a", none, nil)
			require.Empty(t, failed)
			require.Equal(t, shippedWindow, got)
		})
	}
	plan := ownPlan(t, "memory-window.yaml", "window.count: params.count", "window.count: policy.memoryAggregationIntervalCount")
	got, failed := facts.WindowFor(plan, "a", none, nil)
	require.Equal(t, shippedWindow, got)
	require.Len(t, failed, 1)
	require.ErrorContains(t, failed[0], "memory-window/flags/window")
}

func TestAnOOMBecomesASample(t *testing.T) {
	const mi = 1 << 20
	bytes, ok, failed := facts.OOMSample(shippedPlan(t), "a", facts.Policy(nil), facts.OOM{Reported: 1000 * mi, Peak: 3000 * mi}, nil)
	require.Empty(t, failed)
	require.True(t, ok)
	require.EqualValues(t, 3600*mi, bytes)

	on := planWith(t, policy.Options{Gates: map[string]bool{"PerVPAConfig": true}})
	_, ok, failed = facts.OOMSample(on, "a", facts.Policy(&vpav1.ContainerResourcePolicy{OOMBumpUpRatio: quantity("1"), OOMMinBumpUp: quantity("0")}), facts.OOM{Reported: 1000 * mi}, nil)
	require.Empty(t, failed)
	require.False(t, ok, "both are neutral")

	plan := ownPlan(t, "oom-bump.yaml", "ratio, type: double, default: 1.2", "ratio, type: double")
	_, ok, failed = facts.OOMSample(plan, "a", facts.Policy(nil), facts.OOM{Reported: 1000 * mi}, nil)
	require.False(t, ok)
	require.Len(t, failed, 1)
}

// Memory is exactly cpu × memoryPerCPU below the maximum, nothing drops, the result is stable
// (AEP-8459).
func TestTheRatioIsHeldExactly(t *testing.T) {
	const most = int64(1e14)
	random := rand.New(rand.NewPCG(8459, 0))
	v := &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"vpa-post-processor.kubernetes.io/a_integerCPU": "true"}}}
	amount := func() int64 { // of any magnitude
		return min(int64(math.Exp(random.Float64()*33)), most) - 1
	}
	for _, whole := range []bool{false, true} {
		options := policy.Options{Gates: map[string]bool{"MemoryPerCPURatio": true}}
		if whole {
			options.Params = map[string]string{"wholeCores": "true"}
		}
		plan := planWith(t, options)
		hold := func(ratio, cpu, memory int64) (int64, int64) {
			record := facts.Policy(&vpav1.ContainerResourcePolicy{MemoryPerCPU: resource.NewQuantity(ratio, resource.BinarySI)})
			bounds := facts.NewBounds()
			bounds[0].SetInt("cpu", cpu).SetInt("memory", memory)
			require.Empty(t, plan.RunStages(facts.ContainerRecommend, facts.RecommendFacts(plan, v, "a", record, facts.RecommendInput{}, bounds), nil))
			cpu, _ = bounds[0].Int("cpu")
			memory, _ = bounds[0].Int("memory")
			return cpu, memory
		}
		for range 3000 {
			ratio, cpu, memory := 1+amount(), amount(), amount()
			heldCPU, heldMemory := hold(ratio, cpu, memory)
			require.GreaterOrEqual(t, heldCPU, cpu)
			require.GreaterOrEqual(t, heldMemory, memory)
			exact, _ := lang.MulDivFloor(heldCPU, ratio, 1000)
			if heldCPU < most {
				require.Equal(t, min(exact, most), heldMemory, "%d milli-cores and %d bytes at %d bytes a core became %d and %d", cpu, memory, ratio, heldCPU, heldMemory)
			}
			if whole && heldCPU < most {
				require.Zero(t, heldCPU%1000)
			}
			againCPU, againMemory := hold(ratio, heldCPU, heldMemory)
			require.Equal(t, []int64{heldCPU, heldMemory}, []int64{againCPU, againMemory})
		}
	}
}
