package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest"
)

// seriesOf is a series of container app of a pod of Deployment web/shop, every five minutes.
func seriesOf(name, labels string, values ...string) string {
	var points []string
	for i, value := range values {
		points = append(points, fmt.Sprintf("[%d,%q]", 1769853600+300*i, value))
	}
	return fmt.Sprintf(`{"metric":{"__name__":%q,"namespace":"web","pod":"shop-7c5687bd57-659fr","container":"app"%s},"values":[%s]}`, name, labels, strings.Join(points, ","))
}

func answerOf(series ...string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(series, ",") + `]}}`
}

// TestUsageIsWhatMetricsMean: series of cores were taken for copies, and any metric with memory in its name for usage.
func TestUsageIsWhatMetricsMean(t *testing.T) {
	manifests := vpaOf("Deployment", "shop") + deploymentOf("shop", "app")
	cpu := seriesOf("container_cpu_usage_seconds_total", "", "100", "175", "250")
	memory := seriesOf("container_memory_working_set_bytes", "", "419430400", "419430400", "419430400")
	const right = "shop app 296m 511772986"
	for name, tt := range map[string]struct {
		usage string
		row   string
		note  string
		fails string
	}{
		"a series each": {usage: answerOf(cpu, memory), row: right},
		"a series for each core": {usage: answerOf(seriesOf("container_cpu_usage_seconds_total", `,"cpu":"cpu00"`, "50", "87.5", "125"),
			seriesOf("container_cpu_usage_seconds_total", `,"cpu":"cpu01"`, "50", "87.5", "125"), memory), row: right},
		"other metrics beside them": {usage: answerOf(cpu, memory, seriesOf("container_cpu_cfs_throttled_seconds_total", "", "0", "450", "900"),
			seriesOf("container_memory_max_usage_bytes", "", "1677721600", "1677721600")), row: right,
			note: "usage.csv: metrics that are not usage are left out: container_cpu_cfs_throttled_seconds_total (1 series), container_memory_max_usage_bytes (1 series); usage is container_cpu_usage_seconds_total, "},
		"two clusters": {usage: answerOf(cpu, seriesOf("container_memory_working_set_bytes", `,"cluster":"blue"`, "419430400", "419430400", "419430400"),
			seriesOf("container_memory_working_set_bytes", `,"cluster":"green"`, "1000", "1000", "1000")), row: right,
			note: `1 container has series that contradict each other, e.g. app of pod web/shop-7c5687bd57-659fr: label cluster is "blue" or "green"; `},
		"an answer that lacks something": {usage: strings.Replace(answerOf(cpu, memory), "{", `{"isPartial":true,`, 1), row: right,
			fails: "usage from usage.csv is incomplete: the server could not read all of it (isPartial is true); ask it again"},
		"a counter that jumps": {usage: answerOf(seriesOf("container_cpu_usage_seconds_total", "", "100", "175", "250", "1700000250"), memory), row: right,
			note: "1 sample left out as implausible (rule set plausible-usage, --max-usage-cpu and --max-usage-memory): the first is 5666666666m cpu of container app of pod web/shop-7c5687bd57-659fr at 2026-01-31T10:15:00Z, where at most 10k is accepted"},
		"what kubectl top prints": {usage: "NAME   CPU(cores)   MEMORY(bytes)\nshop-7c5687bd57-659fr   250m   400Mi\n", row: "shop - - -",
			fails: "cannot read usage from usage.csv: it is the output of kubectl top, which is usage of one moment"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, rest, err := recommended(t, manifests, tt.usage)
			requireEnd(t, err, tt.fails, false)
			require.Equal(t, []string{tt.row}, rows)
			if tt.note != "" {
				require.Condition(t, func() bool { return strings.HasPrefix(rest[0], tt.note) }, rest)
			}
		})
	}
}

// TestABacktestReadsUsageAsRecommendDoes: the least that was enough is what two cores used together.
func TestABacktestReadsUsageAsRecommendDoes(t *testing.T) {
	t.Chdir(t.TempDir())
	var cores []string
	for _, core := range []string{"cpu00", "cpu01"} {
		cores = append(cores, seriesOf("container_cpu_usage_seconds_total", fmt.Sprintf(`,"cpu":%q`, core), "50", "87.5", "125", "162.5", "999999999"))
	}
	cores = append(cores, seriesOf("container_cpu_cfs_throttled_seconds_total", "", "0", "450", "900"))
	require.NoError(t, os.WriteFile("cpu.json", []byte(answerOf(cores...)), 0o600))
	out, stderr, err := run(vpaOf("Deployment", "shop")+deploymentOf("shop", "app"), "backtest", "-f", "-", "--history", "cpu.json", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, stderr, "cpu.json: metrics that are not usage are left out: container_cpu_cfs_throttled_seconds_total (1 series); ")
	require.Contains(t, stderr, "1 sample left out as implausible (rule set plausible-usage, --max-usage-cpu and --max-usage-memory): the first is 6666")
	var report backtest.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	for _, p := range report.Policies {
		if p.Name == backtest.Hindsight {
			require.InEpsilon(t, 0.25, p.Containers[0].CPU.RequestedCoreHours*3600/float64(report.Window.Seconds), 1e-9)
		}
	}
}
