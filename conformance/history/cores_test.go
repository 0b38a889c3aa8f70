package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// TestCoresAddUpAndCopiesDoNot: a cAdvisor outside kubelets has a series for each core. Three cores of half
// a CPU each are 1500m, by a recommender and by a backtest.
func TestCoresAddUpAndCopiesDoNot(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	from := now.Add(-historyLength - 2*time.Hour)
	web := container("shop", "web-0", "app")
	cores := func(labels map[string]string) (out []harness.DataPoint) {
		for i := range 3 {
			out = append(out, counter(0.5, with(labels, "cpu", fmt.Sprintf("cpu%02d", i)), from, now)...)
		}
		return out
	}
	for name, series := range map[string][]harness.DataPoint{
		"a series for each core":               cores(web),
		"one series for all cores":             counter(1.5, with(web, "cpu", "total"), from, now),
		"one series without the label":         counter(1.5, web, from, now),
		"cores beside all of them":             append(cores(web), counter(1.5, with(web, "cpu", "total"), from, now)...),
		"cores, read by two replicas":          append(cores(with(web, "prometheus_replica", "a")), cores(with(web, "prometheus_replica", "b"))...),
		"cores by one job, the sum by another": append(cores(with(web, "job", "cadvisor")), counter(1.5, with(web, "job", "kubelet", "cpu", "total"), from, now)...),
		"cores of a container that restarted":  append(cores(with(web, "id", "/1")), cores(with(web, "id", "/2"))...),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPrometheus(t)
			p.write(t, "cpu_seconds", series)
			p.write(t, "memory_bytes", gauge(1e6, web, from, now))
			pods, log, _ := logged(t, now, append(p.args(), "--prometheus-cadvisor-job-name=")...)
			require.Empty(t, log)
			require.Len(t, pods, 1)
			n := 0
			for _, sample := range pods[0].Samples() {
				if sample.Resource == model.CPU {
					require.InDelta(t, 1500, sample.Amount, 2)
					n++
				}
			}
			require.GreaterOrEqual(t, n, 70)
			points := contents(t, backtested(t, p, now))[usagefile.Series{Pod: pods[0].ID, Container: "app", Kind: usagefile.CPU}]
			require.NotEmpty(t, points)
			for _, point := range points {
				require.InDelta(t, 1500, point.Amount, 2)
			}
		})
	}
}
