package node

import (
	"context"
	"fmt"
	"testing"

	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestUsageOfTheNodeBecomesARecommendation: from the kernel by the kubelet and metrics-server to celvpa, whose pods then say why.
func TestUsageOfTheNodeBecomesARecommendation(t *testing.T) {
	t.Parallel()
	ns := namespace(t, "usage")
	pods := deploy(t, ns, "web", 1, fmt.Sprintf("containers: [{args: ['-burn=150', '-hold=%d'], resources: {requests: {cpu: 20m, memory: 16Mi}}}]", 60<<20))
	watch(t, ns, "web", "updatePolicy: {updateMode: 'Off'}")
	recommended(t, ns, "web", func(milli, bytes int64) bool {
		return milli >= 100 && milli <= 300 && bytes >= 66<<20 && bytes <= 120<<20
	})
	until(t, patience, "metrics.k8s.io", func(ctx context.Context) (bool, string) {
		var m metricsv1beta1.PodMetrics
		if err := cluster.Get(ctx, client.ObjectKeyFromObject(&pods[0]), &m); err != nil {
			return false, err.Error()
		}
		used := m.Containers[0].Usage
		return used.Cpu().MilliValue() > 100, fmt.Sprintf("%s and %d MiB in %s", used.Cpu(), used.Memory().Value()>>20, m.Window.Duration)
	})
	until(t, patience, "the kernel's own account", func(ctx context.Context) (bool, string) {
		k, _, err := kernelOf(ctx, &pods[0], "app")
		return k.workingSet > 60<<20 && k.used > 0, fmt.Sprintf("container_memory_working_set_bytes %d, container_cpu_usage_seconds_total %.1f (%v)", k.workingSet, k.used, err)
	})
	if !*beside {
		answeredByAll(t, ns, "web")
	}
}
