package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// podsTotal counts reviewed pods; name and label are upstream's (UPSTREAM.md §6).
var podsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "vpa_admission_controller_admission_pods_total",
	Help: "Pods reviewed, by whether they were changed.",
}, []string{"applied"})

// vpasTotal and refusalsTotal are celvpa's own.
var (
	vpasTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "celvpa_admission_vpas_total",
		Help: "VerticalPodAutoscalers reviewed, by whether they were allowed.",
	}, []string{"allowed"})
	refusalsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "celvpa_admission_refusals_total",
		Help: "Causes for which VerticalPodAutoscalers were refused, by rule.",
	}, []string{"rule"})
)

func init() { metrics.Registry.MustRegister(podsTotal, vpasTotal, refusalsTotal) }
