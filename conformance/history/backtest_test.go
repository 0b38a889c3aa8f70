package history

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	source "github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// TestBacktestsReadARealPrometheus reads days of usage in pieces, from a Prometheus and through a
// gateway that fails now and then.
func TestBacktestsReadARealPrometheus(t *testing.T) {
	p := newPrometheus(t)
	now := time.Now().Truncate(time.Hour)
	const steps = 72 * 12 // of 5 minutes
	var cpu, memory []harness.DataPoint
	for i := range steps + 1 {
		at := now.Add(time.Duration(i-steps) * 5 * time.Minute)
		labels := map[string]string{"namespace": "shop", "pod": "web-1", "container": "app", "cluster": "a", "replica": "0"}
		counter := float64(i) * 75
		if i > 400 {
			counter = float64(i-400) * 75 // a reset
		}
		cpu, memory = append(cpu, harness.Point(at, counter, labels)), append(memory, harness.Point(at, float64(i<<20), labels))
		other := map[string]string{"namespace": "shop", "pod": "web-1", "container": "app", "cluster": "b", "replica": "1"}
		memory = append(memory, harness.Point(at, 1<<40, other)) // another cluster's
	}
	p.write(t, "container_cpu_usage_seconds_total", cpu)
	p.write(t, "container_memory_working_set_bytes", memory)

	read := func(address string, args ...string) (*source.Store, error) {
		var c history.Config
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		history.AddReadFlags(flags, &c, "history")
		require.NoError(t, flags.Parse(append([]string{"--history-length=3d", "--prometheus-matchers=cluster=a"}, args...)))
		c.Address = address
		store := source.NewStore(source.DefaultMemory, t.TempDir(), nil)
		t.Cleanup(func() { _ = store.Close() })
		err := (&source.Prometheus{History: c, To: now, Clock: clock.RealClock{}}).Read(t.Context(), store)
		require.NoError(t, store.Seal())
		return store, err
	}
	store, err := read(p.Address)
	require.ErrorContains(t, err, "--history-resolution must hold two scrapes", "a rate over 5 minutes has one point of a counter that comes every 5")
	require.Len(t, store.Spans(), 1)
	exact, err := store.Read(0, nil)
	require.NoError(t, err)
	require.Len(t, exact, steps+1)
	for i, point := range exact {
		require.Equal(t, source.Point{At: now.Add(time.Duration(i-steps) * 5 * time.Minute).UnixNano(), Amount: int64(i << 20)}, point)
	}

	store, err = read(p.Address, "--history-resolution=15m")
	require.NoError(t, err)
	points, err := store.Read(0, nil)
	require.NoError(t, err)
	require.Greater(t, len(points), 72*4-3)
	for _, point := range points {
		require.InDelta(t, 250, point.Amount, 130, "75 CPU-seconds in 5 minutes, also across the reset")
	}

	target, err := url.Parse(p.Address)
	require.NoError(t, err)
	var asked atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(target)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); {
		case r.Header.Get("X-Scope-OrgID") != "team-a":
			http.Error(w, "no tenant", http.StatusUnauthorized)
		case n == 3:
			panic(http.ErrAbortHandler)
		case n == 4:
			http.Error(w, "upstream is away", http.StatusBadGateway)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	defer gateway.Close()
	_, err = read(gateway.URL)
	require.ErrorContains(t, err, "401")
	asked.Store(0)
	store, err = read(gateway.URL, "--history-resolution=15m", "--prometheus-header=X-Scope-OrgID: team-a")
	require.NoError(t, err)
	// The HTTP client itself repeats a request whose connection breaks before an answer.
	require.Contains(t, strings.Join(store.Notes(), "\n"), "was asked again after 1s: server_error: server error: 502")
	memoryOf, err := store.Read(1, nil)
	require.NoError(t, err)
	require.Len(t, memoryOf, steps/3+1)
}

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

// prometheus is a real one, stopped when its test ends.
type prometheus struct {
	*harness.Prometheus
	dir string
}

func newPrometheus(t *testing.T) prometheus {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Prometheus, which takes minutes to build")
	}
	dir := t.TempDir()
	p, err := harness.StartPrometheus(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop()) })
	return prometheus{p, dir}
}

func (p prometheus) write(t *testing.T, metric string, points []harness.DataPoint) {
	t.Helper()
	require.NoError(t, p.Write(t.Context(), metric, points))
}

// args are flags that read from this Prometheus what writeHistory wrote.
func (p prometheus) args() []string {
	return []string{"--prometheus-address=" + p.Address, "--history-length=" + prommodel.Duration(historyLength).String(), "--history-resolution=1h",
		"--history-cpu-metric=cpu_seconds", "--history-memory-metric=memory_bytes", "--metric-for-pod-labels=kube_pod_labels[4d]",
		"--pod-label-prefix=label_", "--pod-namespace-label=namespace", "--pod-name-label=pod"}
}

// webConfig requires basic auth of user celvpa with password "open sesame".
func (p prometheus) webConfig(t *testing.T) string {
	file := filepath.Join(p.dir, "web.yml")
	const users = "basic_auth_users: {celvpa: '$2a$04$d9OpNfdNne5XmEZA0rps/e564UXHYIgSbvko5O0k3LENcdai7RyB2'}\n"
	require.NoError(t, os.WriteFile(file, []byte(users), 0o600))
	return file
}

// gauge is a series with one value, every two minutes.
func gauge(value float64, labels map[string]string, from, to time.Time) (out []harness.DataPoint) {
	for at := from; !at.After(to); at = at.Add(2 * time.Minute) {
		out = append(out, harness.Point(at, value, labels))
	}
	return out
}

// counter is a series that grows by so many CPUs, every two minutes.
func counter(cores float64, labels map[string]string, from, to time.Time) (out []harness.DataPoint) {
	for at := from; !at.After(to); at = at.Add(2 * time.Minute) {
		out = append(out, harness.Point(at, 1e6+cores*at.Sub(from).Seconds(), labels))
	}
	return out
}

// with adds labels to others, as name, value, name, value.
func with(labels map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for name, value := range labels {
		out[name] = value
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// container are the labels of a container's series, as upstream's flags expect them.
func container(namespace, pod, name string) map[string]string {
	return map[string]string{"job": "kubernetes-cadvisor", "namespace": namespace, "pod_name": pod, "name": name, "id": fmt.Sprintf("/kubepods/%s/%s", pod, name)}
}
