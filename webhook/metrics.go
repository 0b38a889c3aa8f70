package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Names, labels and buckets are upstream's (UPSTREAM.md §6).
var (
	podsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vpa_admission_controller_admission_pods_total",
		Help: "Reviewed pods, by whether they were changed.",
	}, []string{"applied"})
	admissionLatency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "vpa_admission_controller_admission_latency_seconds",
		Help:    "Duration of a review, by outcome and by the kind of object.",
		Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 5, 10, 20, 30, 60, 120, 300},
	}, []string{"status", "resource"})
	executionLatency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "vpa_admission_controller_execution_latency_seconds",
		Help:    "Duration of each step of a review.",
		Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 240, 300},
	}, []string{"step"})
)

// These are celvpa's own.
var (
	vpasTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "celvpa_admission_vpas_total",
		Help: "Reviewed VerticalPodAutoscalers, by whether they were allowed.",
	}, []string{"allowed"})
	refusalsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "celvpa_admission_refusals_total",
		Help: "Causes of refused VerticalPodAutoscalers and pods, by rule.",
	}, []string{"rule"})
	shedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "celvpa_admission_shed_total",
		Help: "Reviews answered without asking the rules, by reason: overload, memory, deadline, malformed or panic. The object is admitted unchanged.",
	}, []string{"reason"})
	withheldTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "celvpa_admission_withheld_total",
		Help: "New pods of which a resource stays as it is because API servers would refuse the pod otherwise, by the RuleOverlay that may be the cause.",
	}, []string{"overlay"})
	inFlight = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "celvpa_admission_in_flight",
		Help: "Reviews in progress.",
	})
)

// Values of the label reason.
const (
	shedOverload  = "overload"
	shedMemory    = "memory"
	shedDeadline  = "deadline"
	shedMalformed = "malformed"
	shedPanic     = "panic"
)

// Values of the label status.
const (
	statusError = iota
	statusSkipped
	statusApplied
)

// Values of the label resource.
const (
	resourceUnknown = iota
	resourcePod
	resourceVPA
)

// step times one step of a review. Its observer is looked up once, because reviews are many.
type step struct{ prometheus.Observer }

var (
	stepRead  = step{executionLatency.WithLabelValues("read_request")}
	stepAdmit = step{executionLatency.WithLabelValues("admit")}
	stepBuild = step{executionLatency.WithLabelValues("build_response")}
	stepWrite = step{executionLatency.WithLabelValues("write_response")}
	stepTotal = step{executionLatency.WithLabelValues("total")}

	// latencies are indexed by status and resource.
	latencies [3][3]prometheus.Observer

	podApplied, podSkipped = podsTotal.WithLabelValues("true"), podsTotal.WithLabelValues("false")
)

// since records the duration of the step and returns the time at which the next one begins.
func (s step) since(begin time.Time) time.Time {
	now := time.Now()
	s.Observe(now.Sub(begin).Seconds())
	return now
}

func init() {
	for i, status := range []string{"error", "skipped", "applied"} {
		for j, resource := range []string{"unknown", "Pod", "VPA"} {
			latencies[i][j] = admissionLatency.WithLabelValues(status, resource)
		}
	}
	for _, reason := range []string{shedOverload, shedMemory, shedDeadline, shedMalformed, shedPanic} {
		shedTotal.WithLabelValues(reason) // a rate needs a zero to start from
	}
	metrics.Registry.MustRegister(podsTotal, admissionLatency, executionLatency, vpasTotal, refusalsTotal, shedTotal, withheldTotal, inFlight)
}

// outcome is the answer to a review, and the status that metrics count it under.
type outcome struct {
	resp   admission.Response
	status int
}

// observe counts an answer. A pod counts as changed when the answer has a patch.
func (o outcome) observe(req admission.Request, readable bool, took time.Duration) {
	resource := resourceUnknown
	switch {
	case !readable:
	case req.Resource.Group == "" && req.Resource.Resource == "pods":
		resource = resourcePod
		if o.status == statusApplied {
			podApplied.Inc()
		} else {
			podSkipped.Inc()
		}
	case req.Resource.Group == vpav1.GroupVersion.Group && req.Resource.Resource == "verticalpodautoscalers":
		resource = resourceVPA
	}
	latencies[o.status][resource].Observe(took.Seconds())
}
