package history

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	source "github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// cluster writes one cluster's usage: a pod of a StatefulSet, which has the same name in each cluster,
// and a pod of a Deployment, which has not. scale is how much it uses.
func cluster(t *testing.T, p prometheus, name string, scale float64, from, to time.Time) {
	t.Helper()
	var cpu, memory, names []harness.DataPoint
	for _, pod := range []string{"db-0", "web-" + name} {
		labels := with(container("shop", pod, "app"), "cluster", name, "instance", "10.0.0.1:10250", "id", "/"+name+"/"+pod)
		cpu = append(cpu, counter(scale, labels, from, to)...)
		memory = append(memory, gauge(scale*(1<<30), labels, from, to)...)
		app, _, _ := strings.Cut(pod, "-")
		names = append(names, gauge(1, map[string]string{"namespace": "shop", "pod": pod, "label_app": app, "label_of": name, "cluster": name}, from, to)...)
	}
	p.write(t, "cpu_seconds", cpu)
	p.write(t, "memory_bytes", memory)
	p.write(t, "kube_pod_labels", names)
}

// logged is what Load logs and returns.
func logged(t *testing.T, now time.Time, args ...string) (pods []history.Pod, log string, err error) {
	t.Helper()
	var text bytes.Buffer
	s, err := history.New(config(t, args...), clock.RealClock{}, funcr.New(func(_, line string) { text.WriteString(line + "\n") }, funcr.Options{}))
	require.NoError(t, err)
	pods, err = s.Load(t.Context(), now)
	return pods, text.String(), err
}

// everything is all that a recommender learns of pods.
func everything(pods []history.Pod) map[model.PodID]any {
	type pod struct {
		labels  map[string]string
		samples []model.Sample
	}
	out := map[model.PodID]any{}
	for _, p := range pods {
		out[p.ID] = pod{p.Labels, p.Samples()}
	}
	return out
}

func conflicts(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "celvpa_recommender_history_conflicts_total" {
			for _, m := range f.Metric {
				out[m.Label[0].GetValue()] = m.Counter.GetValue()
			}
		}
	}
	return out
}

// TestTwoClustersInOnePrometheus: without matchers a warning, with them what the cluster's own
// Prometheus says, to the digit, in a recommender and in a backtest.
func TestTwoClustersInOnePrometheus(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	from := now.Add(-historyLength - 2*time.Hour)
	own, shared := newPrometheus(t), newPrometheus(t)
	cluster(t, own, "a", 0.25, from, now)
	cluster(t, shared, "a", 0.25, from, now)
	cluster(t, shared, "b", 3, from, now)

	alone, log, err := logged(t, now, own.args()...)
	require.NoError(t, err)
	require.Empty(t, log)
	require.Equal(t, []string{"shop/db-0", "shop/web-a"}, podNames(alone))
	require.Len(t, alone[0].Samples(), 2*73)
	require.EqualValues(t, 250, alone[0].Samples()[0].Amount)

	before := conflicts(t)
	blend, log, err := logged(t, now, shared.args()...)
	require.NoError(t, err, "nothing is missing")
	require.Equal(t, []string{"shop/db-0", "shop/web-a", "shop/web-b"}, podNames(blend), "the Deployment has a pod of the other cluster")
	require.EqualValues(t, 3000, blend[0].Samples()[0].Amount, "the larger counts")
	require.Contains(t, log, "history may be of several clusters; choose one with --prometheus-matchers")
	require.Contains(t, strings.ReplaceAll(log, `\`, ""), `1 container has series that contradict each other, e.g. app of pod shop/db-0: label cluster is "a" or "b"; `+
		`the largest amount of each time counts. Choose with a flag such as --prometheus-matchers='cluster="b"'`)
	require.Equal(t, 1, strings.Count(log, "\n"), "once")
	require.Equal(t, before["series"]+1, conflicts(t)["series"])

	chosen, log, err := logged(t, now, append(shared.args(), `--prometheus-matchers=cluster="a"`)...)
	require.NoError(t, err)
	require.Empty(t, log)
	require.Equal(t, everything(alone), everything(chosen))
	other, _, err := logged(t, now, append(shared.args(), `--prometheus-matchers=cluster!="a",cluster=~"a|b"`)...)
	require.NoError(t, err)
	require.Equal(t, []string{"shop/db-0", "shop/web-b"}, podNames(other))
	require.Equal(t, map[string]string{"app": "db", "of": "b"}, other[0].Labels, "the query for labels has the matchers, too")

	// The same of a backtest.
	alike := backtested(t, own, now)
	require.Empty(t, alike.Notes())
	same := backtested(t, shared, now, "--prometheus-matchers=cluster=a")
	require.Empty(t, same.Notes())
	require.Equal(t, contents(t, alike), contents(t, same))
	mixed := backtested(t, shared, now)
	require.Len(t, mixed.Notes(), 1)
	require.Contains(t, mixed.Notes()[0], `label cluster is "a" or "b"`)
	require.NotEqual(t, contents(t, alike), contents(t, mixed))
}

func backtested(t *testing.T, p prometheus, now time.Time, args ...string) *source.Store {
	t.Helper()
	var c history.Config
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	history.AddReadFlags(flags, &c, "history")
	require.NoError(t, flags.Parse(append([]string{"--history-length=3d", "--history-resolution=15m", "--history-cpu-metric=cpu_seconds",
		"--history-memory-metric=memory_bytes", "--container-pod-name-label=pod_name", "--container-name-label=name"}, args...)))
	c.Address = p.Address
	store := source.NewStore(source.DefaultMemory, t.TempDir(), nil)
	t.Cleanup(func() { _ = store.Close() })
	require.NoError(t, (&source.Prometheus{History: c, To: now, Clock: clock.RealClock{}}).Read(t.Context(), store))
	require.NoError(t, store.Seal())
	return store
}

func contents(t *testing.T, s *source.Store) map[usagefile.Series][]source.Point {
	t.Helper()
	out := map[usagefile.Series][]source.Point{}
	for i, span := range s.Spans() {
		points, err := s.Read(i, nil)
		require.NoError(t, err)
		out[span.Series] = points
	}
	return out
}

// TestSeriesThatGoOnBesideEachOther: what is a conflict, and what is not.
func TestSeriesThatGoOnBesideEachOther(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	from := now.Add(-historyLength)
	web := container("shop", "web-0", "app")
	for name, row := range map[string]struct {
		series [][]harness.DataPoint
		want   string
	}{
		"replicas of a Prometheus, which agree": {series: [][]harness.DataPoint{
			gauge(100e6, with(web, "prometheus_replica", "a"), from, now), gauge(130e6, with(web, "prometheus_replica", "b"), from, now)}},
		"two jobs that scrape the same, a moment apart": {series: [][]harness.DataPoint{
			gauge(100e6, with(web, "metrics_path", "/a"), from, now), gauge(105e6, with(web, "metrics_path", "/b"), from, now)}},
		"a container that restarts time and again": {series: [][]harness.DataPoint{
			gauge(100e6, with(web, "id", "/1"), from, now.Add(-40*time.Hour)), gauge(800e6, with(web, "id", "/2"), now.Add(-40*time.Hour), now.Add(-20*time.Hour)),
			gauge(200e6, with(web, "id", "/3"), now.Add(-20*time.Hour), now)}},
		"a pod that moves to another node": {series: [][]harness.DataPoint{
			gauge(100e6, with(web, "instance", "n1"), from, now.Add(-30*time.Hour)), gauge(800e6, with(web, "instance", "n2"), now.Add(-30*time.Hour), now)}},
		"a cluster that gets another name": {series: [][]harness.DataPoint{
			gauge(100e6, with(web, "cluster", "old"), from, now.Add(-30*time.Hour)), gauge(800e6, with(web, "cluster", "new"), now.Add(-30*time.Hour).Add(10*time.Minute), now)}},
		"two clusters without a label of their own": {want: `e.g. app of pod shop/web-0: label region is "eu" or "us" (instance, node differ, too); the largest`, series: [][]harness.DataPoint{
			gauge(100e6, with(web, "instance", "n1", "node", "n1", "region", "eu"), from, now), gauge(800e6, with(web, "instance", "n2", "node", "n2", "region", "us"), from, now)}},
		"one of four clusters has no label": {want: `label k8s_cluster is "" or "a" or "b" or 1 more; the largest`, series: [][]harness.DataPoint{
			gauge(100e6, web, from, now), gauge(200e6, with(web, "k8s_cluster", "a"), from, now), gauge(200e6, with(web, "k8s_cluster", "b"), from, now), gauge(200e6, with(web, "k8s_cluster", "c"), from, now)}},
		"pods of two clusters that have no name in common": {want: `usage is of several clusters: label cluster is "a" or "b"; pods of all of them count. Choose with a flag such as --prometheus-matchers='cluster="b"'`,
			series: [][]harness.DataPoint{gauge(100e6, with(web, "cluster", "a"), from, now), gauge(100e6, with(container("shop", "web-1", "app"), "cluster", "b"), from, now)}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPrometheus(t)
			for _, series := range row.series {
				p.write(t, "memory_bytes", series)
			}
			_, log, _ := logged(t, now, p.args()...)
			if row.want == "" {
				require.Empty(t, log)
				return
			}
			require.Contains(t, strings.ReplaceAll(log, `\`, ""), row.want)
		})
	}
}
