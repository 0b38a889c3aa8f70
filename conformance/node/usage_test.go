package node

import (
	"context"
	"fmt"
	"math"
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
	lowest, highest := int64(math.MaxInt64), int64(0) // usage in milli-cores that celvpa saw: a busy node gives less than is wanted
	recommended(t, ns, "web", func(milli, bytes int64) bool {
		var m metricsv1beta1.PodMetrics
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(&pods[0]), &m); err != nil || len(m.Containers) == 0 {
			return false // none yet
		}
		used := m.Containers[0].Usage
		t.Logf("metrics.k8s.io: %s and %d MiB in %s", used.Cpu(), used.Memory().Value()>>20, m.Window.Duration)
		lowest, highest = min(lowest, used.Cpu().MilliValue()), max(highest, used.Cpu().MilliValue())
		return lowest > 10 && milli >= lowest && milli <= highest*13/10 && bytes >= 66<<20 && bytes <= 120<<20
	})
	until(t, patience, "the kernel's own account", func(ctx context.Context) (bool, string) {
		k, _, err := kernelOf(ctx, &pods[0], "app")
		return k.workingSet > 60<<20 && k.used > 0, fmt.Sprintf("container_memory_working_set_bytes %d, container_cpu_usage_seconds_total %.1f (%v)", k.workingSet, k.used, err)
	})
	if !*beside {
		answeredByAll(t, ns, "web")
	}
}
