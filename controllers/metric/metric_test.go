package metric

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestAScrapeNeverSeesATableWithoutValues while others replace them.
func TestAScrapeNeverSeesATableWithoutValues(t *testing.T) {
	table := &Table{GaugeVec: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "rules"}, []string{"version"})}
	replace := func(version string) {
		Replace(func() {
			table.WithLabelValues(version).Set(1)
			table.WithLabelValues(version + "-shadow").Set(1)
		}, table)
	}
	replace("1")
	registry := prometheus.NewRegistry()
	registry.MustRegister(table)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20_000 {
			replace("2")
			replace("1")
		}
	}()
	for going := true; going; {
		select {
		case <-done:
			going = false
		default:
		}
		found, err := registry.Gather()
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Len(t, found[0].GetMetric(), 2)
		first, second := found[0].GetMetric()[0].GetLabel()[0].GetValue(), found[0].GetMetric()[1].GetLabel()[0].GetValue()
		require.Equal(t, first+"-shadow", second, "of one moment")
	}
}
