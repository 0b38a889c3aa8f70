package recommender

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/controllers/cycle"
	"github.com/celvpa/celvpa/controllers/metric"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Metric names and labels are upstream's (UPSTREAM.md §6), those that begin with celvpa our own.
var (
	latency = cycle.NewLatency("vpa_recommender")

	aggregatesCount = metric.New.NewGauge(prometheus.GaugeOpts{
		Name: "vpa_recommender_aggregate_container_states_count",
		Help: "Containers with distinct names and pod labels whose usage history is kept.",
	})

	recommendationLatency = metric.New.NewHistogram(prometheus.HistogramOpts{
		Name:    "vpa_recommender_recommendation_latency_seconds",
		Help:    "Time from a VPA's creation to its first recommendation.",
		Buckets: []float64{1, 2, 5, 7.5, 10, 20, 30, 40, 50, 60, 90, 120, 150, 180, 240, 300, 600, 900, 1800},
	})

	objectsCount     = metric.Gauge("vpa_recommender_vpa_objects_count", "VPAs that this recommender serves.", "update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config")
	samplesTotal     = metric.Counter("celvpa_recommender_samples_total", "Usage samples, by resource and result.", "resource", "outcome")
	oomsTotal        = metric.Counter("celvpa_recommender_oom_samples_total", "Reports of containers that ran out of memory, by result.", "outcome")
	writesTotal      = metric.Counter("celvpa_recommender_writes_total", "API writes, by object (status or checkpoint) and result: success, error, postponed to the next cycle, or tolerated: left out by --bounds-tolerance.", "object", "result")
	postponedWrites  = metric.Gauge("celvpa_recommender_postponed_writes", "Statuses and checkpoints that the last cycle left to the next one, by object (status or checkpoint).", "object")
	checkpointsTotal = metric.Counter("celvpa_recommender_checkpoints_loaded_total", "Checkpoints found at the start, by result: loaded, unused (their VPA is not served), or unreadable.", "result")
	resourcesRead    = metric.Counter("vpa_resources_get_resources_count", "Containers whose resources were read, by source: pod status or spec.", "source")

	panics = metric.New.NewCounter(prometheus.CounterOpts{
		Name: "celvpa_recommender_panics_total",
		Help: "VPAs whose evaluation panicked, a bug in celvpa. Their status stays unchanged.",
	})
)

func init() {
	for _, object := range []string{"status", "checkpoint"} { // from 0 on, so that the first one is an increase
		for _, result := range []string{"success", "error", "postponed"} {
			writesTotal.WithLabelValues(object, result)
		}
	}
	for _, result := range []string{"loaded", "unused", "unreadable"} {
		checkpointsTotal.WithLabelValues(result)
	}
}

// modes are all update modes there are.
var modes = []vpav1.UpdateMode{
	vpav1.UpdateModeOff, vpav1.UpdateModeInitial, vpav1.UpdateModeRecreate, vpav1.UpdateModeInPlaceOrRecreate, vpav1.UpdateModeInPlace, vpav1.UpdateModeAuto,
}

// countObjects sets vpa_objects_count; every combination of labels is there, most of them 0.
func countObjects(all []*Workload) {
	type labels struct {
		mode                               string
		recommended, matching, unsupported bool
	}
	counts := map[labels]int{}
	for _, w := range all {
		counts[labels{w.VPA.Mode(), hasRecommendation(w.VPA.Status.Recommendation), w.model.Pods() > 0, w.Found.Problem != nil}]++
	}
	both := []bool{false, true}
	for _, mode := range modes {
		for _, recommended := range both {
			for _, matching := range both {
				for _, unsupported := range both {
					for _, api := range []string{"v1beta1", "v1beta2", "v1"} {
						n := 0
						if api == "v1" {
							n = counts[labels{string(mode), recommended, matching, unsupported}]
						}
						objectsCount.WithLabelValues(string(mode), strconv.FormatBool(recommended), api, strconv.FormatBool(matching), strconv.FormatBool(unsupported)).Set(float64(n))
					}
				}
			}
		}
	}
}

// countResources counts where the resources of a pod's containers stand.
func countResources(pod *corev1.Pod) {
	count := func(containers []corev1.Container, statuses []corev1.ContainerStatus, inStatus, inSpec string) {
		granted := 0
		for i := range statuses {
			if statuses[i].Resources != nil {
				granted++
			}
		}
		granted = min(granted, len(containers))
		resourcesRead.WithLabelValues(inStatus).Add(float64(granted))
		resourcesRead.WithLabelValues(inSpec).Add(float64(len(containers) - granted))
	}
	count(pod.Spec.Containers, pod.Status.ContainerStatuses, "Pod.Status.ContainerStatuses", "Pod.Spec.Containers")
	count(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, "Pod.Status.InitContainerStatuses", "Pod.Spec.InitContainers")
}
