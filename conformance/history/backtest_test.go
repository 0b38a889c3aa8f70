package history

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	source "github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/recommender/history"
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
