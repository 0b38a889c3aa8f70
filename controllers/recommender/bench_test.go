package recommender

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// BenchmarkRecommendOneContainer runs one container through container.estimate and
// container.recommend with a typical policy: as rules, with a trace, and as the same arithmetic in
// plain Go.
func BenchmarkRecommendOneContainer(b *testing.B) {
	plan := shippedPlan(b)
	view := watched([]string{"a"}, 1440, func(i int) int64 { return int64(i) }, always(1<<30))
	aggregate := view.Containers[0]
	policy := &vpav1.ContainerResourcePolicy{
		ContainerName: "a",
		MinAllowed:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		MaxAllowed:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")},
	}
	run := func(b *testing.B, traced bool) {
		record := facts.Policy(policy)
		estimate := estimateOf(aggregate, 1)
		bounds := facts.NewBounds()
		estimateFacts, _ := facts.EstimateFacts("a", estimate, record, bounds)
		recommendFacts := facts.RecommendFacts("a", record, false, bounds)
		b.ReportAllocs()
		for b.Loop() {
			var trace *engine.Trace
			if traced {
				trace = &engine.Trace{}
			}
			plan.RunStages(facts.ContainerEstimate, estimateFacts, trace)
			plan.RunStages(facts.ContainerRecommend, recommendFacts, trace)
		}
	}
	b.Run("rules", func(b *testing.B) { run(b, false) })
	b.Run("rules-traced", func(b *testing.B) { run(b, true) })
	b.Run("plain-go", func(b *testing.B) {
		minCPU, maxCPU := policy.MinAllowed.Cpu().MilliValue(), policy.MaxAllowed.Cpu().MilliValue()
		minMemory, maxMemory := policy.MinAllowed.Memory().Value(), policy.MaxAllowed.Memory().Value()
		b.ReportAllocs()
		for b.Loop() {
			plain = plainGo(aggregate.Aggregate, minCPU, maxCPU, minMemory, maxMemory)
		}
	})
}

var plain [4][2]int64

// plainGo is what the rules do with default parameters, written by hand.
func plainGo(a *model.Aggregate, minCPU, maxCPU, minMemory, maxMemory int64) (out [4][2]int64) {
	const day = 24 * 60.0
	confidence := math.Min(a.LastSample.Sub(a.FirstSample).Minutes()/day, float64(a.Samples)/day)
	for i, bound := range []struct{ percentile, factor float64 }{
		{0.9, 1}, {0.5, math.Pow(1+0.001/confidence, -2)}, {0.95, 1 + 1/confidence}, {0.9, 1},
	} {
		for r, amount := range []int64{facts.Amount(a.CPU.Percentile(bound.percentile) * 1000), facts.Amount(a.Memory.Percentile(bound.percentile))} {
			amount += facts.Amount(float64(amount) * 0.15)
			if bound.factor != 1 {
				amount = facts.Amount(float64(amount) * bound.factor)
			}
			least, low, high := int64(25), minCPU, maxCPU
			if r == 1 {
				least, low, high = 262144000, minMemory, maxMemory
			}
			amount = max(amount, least)
			if i < 3 {
				amount = min(max(amount, low), high)
			}
			out[i][r] = amount
		}
	}
	return out
}

// TestPlainGoAgreesWithTheRules keeps the benchmark honest: both sides compute the same.
func TestPlainGoAgreesWithTheRules(t *testing.T) {
	view := watched([]string{"a"}, 1440, func(i int) int64 { return int64(i) }, always(1<<30))
	aggregate := view.Containers[0]
	v := aVPA(vpav1.ContainerResourcePolicy{
		ContainerName: "a",
		MinAllowed:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1200m")},
		MaxAllowed:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourceMemory: resource.MustParse("1Gi")},
	})
	got := Recommend(shippedPlan(t), v, view, false).Recommendations
	want := plainGo(aggregate.Aggregate, 1200, 3000, 0, 1<<30)
	for i, list := range []corev1.ResourceList{got[0].Target, got[0].LowerBound, got[0].UpperBound, got[0].UncappedTarget} {
		if have := [2]int64{list.Cpu().MilliValue(), list.Memory().Value()}; have != want[i] {
			t.Errorf("%s: the rules give %v, plain Go gives %v", facts.BoundNames[i], have, want[i])
		}
	}
}
