package policy

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/engine"
)

var rulesInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "celvpa_rules_info",
	Help: "The pipeline that is in force, by name@version and digest.",
}, []string{"pipeline", "digest"})

func init() { metrics.Registry.MustRegister(rulesInfo) }

// InForce tells metrics which plan a process runs.
func InForce(plan *engine.Plan) {
	rulesInfo.Reset()
	rulesInfo.WithLabelValues(plan.Pipeline(), plan.Digest()).Set(1)
}
