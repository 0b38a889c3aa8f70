package recommender

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/metric"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Metrics of how well recommendations fit usage, with upstream's names, labels and buckets
// (UPSTREAM.md §6).
var (
	relativeBuckets = []float64{-1, -.75, -.5, -.25, -.1, -.05, -.025, -.01, -.005, -.0025, -.001, 0, .001, .0025, .005, .01, .025, .05, .1, .25, .5, .75, 1, 2.5, 5, 10, 25, 50, 100}
	cpuBuckets      = prometheus.ExponentialBuckets(0.01, 2, 17)
	memoryBuckets   = prometheus.ExponentialBuckets(1e6, 2, 17)

	relativeDiffs = quality("usage_recommendation_relative_diffs", "How far usage was from the recommendation, relative to it.", relativeBuckets, "update_mode", "resource", "is_oom")
	cpuOver       = quality("cpu_recommendation_over_usage_diffs_cores", "How far CPU recommendations were above usage.", cpuBuckets, "update_mode", "recommendation_missing")
	cpuUnder      = quality("cpu_recommendation_lower_equal_usage_diffs_cores", "How far CPU recommendations were below usage.", cpuBuckets, "update_mode", "recommendation_missing")
	memoryOver    = quality("mem_recommendation_over_usage_diffs_bytes", "How far memory recommendations were above usage.", memoryBuckets, "update_mode", "recommendation_missing", "is_oom")
	memoryUnder   = quality("mem_recommendation_lower_equal_usage_diffs_bytes", "How far memory recommendations were below usage.", memoryBuckets, "update_mode", "recommendation_missing", "is_oom")
	cpuAmounts    = quality("cpu_recommendations_cores", "CPU recommended at the time of each sample.", cpuBuckets, "update_mode")
	memoryAmounts = quality("mem_recommendations_bytes", "Memory recommended at the time of each sample.", memoryBuckets, "update_mode", "is_oom")
	changes       = quality("relative_recommendation_changes", "How recommendations change from one cycle to the next: new / old - 1.", relativeBuckets, "update_mode", "resource", "vpa_size_log2")

	withoutRecommendation = metric.New.NewCounterVec(prometheus.CounterOpts{
		Namespace: "vpa", Subsystem: "quality", Name: "usage_sample_missing_recommendation_count",
		Help: "Samples of containers that should have a recommendation and have none.",
	}, []string{"update_mode", "resource", "is_oom"})
)

func quality(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return metric.New.NewHistogramVec(prometheus.HistogramOpts{Namespace: "vpa", Subsystem: "quality", Name: name, Help: help, Buckets: buckets}, labels)
}

// observeQuality compares a sample with what was recommended.
func (s *State) observeQuality(of *model.Workload, sample model.Sample, oom bool) {
	w := s.workloads[of.ID]
	if w == nil || w.VPA == nil {
		return
	}
	recommended, wanted := w.uncapped[sample.Container]
	if !wanted && w.uncapped != nil {
		return // it is not scaled
	}
	mode, isOOM := w.VPA.WrittenMode(), strconv.FormatBool(oom)
	usage, target := float64(sample.Amount), float64(recommended.Memory)
	if sample.Resource == model.CPU {
		usage, target = usage/1000, float64(recommended.CPU)/1000
	}
	missing := target == 0
	if missing {
		withoutRecommendation.WithLabelValues(mode, sample.Resource.String(), isOOM).Inc()
	} else {
		relativeDiffs.WithLabelValues(mode, sample.Resource.String(), isOOM).Observe((usage - target) / target)
	}
	over, under := cpuOver, cpuUnder
	labels := []string{mode, strconv.FormatBool(missing)}
	if sample.Resource == model.Memory {
		over, under = memoryOver, memoryUnder
		labels = append(labels, isOOM)
	}
	if target > usage {
		over.WithLabelValues(labels...).Observe(target - usage)
	} else {
		under.WithLabelValues(labels...).Observe(usage - target)
	}
	switch {
	case missing:
	case sample.Resource == model.CPU:
		cpuAmounts.WithLabelValues(mode).Observe(target)
	default:
		memoryAmounts.WithLabelValues(mode, isOOM).Observe(target)
	}
}

// recommendedBefore are the uncapped targets in the status of a VPA that is seen for the first
// time; nil when there is no recommendation (UPSTREAM.md §2.16).
func recommendedBefore(v *vpav1.VerticalPodAutoscaler) map[string]facts.Amounts {
	if !isTrue(v, vpav1.RecommendationProvided) || v.Status.Recommendation == nil {
		return nil
	}
	return uncapped(v.Status.Recommendation.ContainerRecommendations)
}

func uncapped(list []vpav1.RecommendedContainerResources) map[string]facts.Amounts {
	out := make(map[string]facts.Amounts, len(list))
	for _, c := range list {
		out[c.ContainerName] = facts.AmountsOf(c.UncappedTarget)
	}
	return out
}

// remember keeps the uncapped targets to compare samples with, and observes how they changed.
func (s *State) remember(w *Workload, result Result, pods int) {
	before := w.uncapped
	w.uncapped = uncapped(result.Recommendations)
	for container, now := range w.uncapped {
		if old, had := before[container]; had {
			observeChange(w, old, now, pods)
		}
	}
}

// observeUnchanged observes that nothing changed.
func (s *State) observeUnchanged(w *Workload) {
	pods := w.model.Pods()
	for _, same := range w.uncapped {
		observeChange(w, same, same, pods)
	}
}

func observeChange(w *Workload, old, now facts.Amounts, pods int) {
	mode, size := w.VPA.WrittenMode(), metric.Size(pods)
	if old.CPU > 0 && now.CPU > 0 {
		changes.WithLabelValues(mode, "cpu", size).Observe(float64(now.CPU)/float64(old.CPU) - 1)
	}
	if old.Memory > 0 && now.Memory > 0 {
		changes.WithLabelValues(mode, "memory", size).Observe(float64(now.Memory)/float64(old.Memory) - 1)
	}
}
