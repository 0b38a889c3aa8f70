// Package history tests what celvpa reads from a real Prometheus. Tests need no cluster; with -short
// they are skipped, as Prometheus takes minutes to build.
package history

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/recommender/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
)

// TestHistoryOfARealPrometheus writes days of usage into a Prometheus and reads them back exactly.
func TestHistoryOfARealPrometheus(t *testing.T) {
	p := newPrometheus(t)
	now := time.Now().Truncate(time.Second)
	written := writeHistory(t, p, now)

	t.Run("values are exact", func(t *testing.T) {
		pods, err := load(t, now, p.args()...)
		require.Equal(t, []string{"kube-system/dns-1", "shop/web-1", "shop/web-2"}, podNames(pods))
		for _, pod := range pods {
			require.Equal(t, written.samples[pod.ID], pod.Samples(), "%v", pod.ID)
		}
		require.Nil(t, pods[0].Labels, "no series has the labels of dns-1")
		require.Equal(t, map[string]string{"app": "web", "tier": "front"}, pods[1].Labels, "the newest of two")
		require.Equal(t, map[string]string{"app": "web"}, pods[2].Labels, "the pod is gone, but not its labels")
		text := err.Error()
		require.Contains(t, text, `series without label namespace in answers about cpu_seconds: `)
		require.Contains(t, text, `e.g. {name="app", pod_name="stray"}`)
		require.Contains(t, text, "samples of memory_bytes that are not amounts (not a number, infinite or below 0): 2, e.g. -1 at ")
		require.Contains(t, text, "pods with usage but without labels in kube_pod_labels[4d]")
		require.Contains(t, text, "e.g. kube-system/dns-1")
		require.Len(t, strings.Split(text, "\n"), 3, text)
	})

	t.Run("upstream's query for labels, an instant vector, is read as well", func(t *testing.T) {
		pods, err := load(t, now, append(p.args(), `--metric-for-pod-labels=up{job="kubernetes-pods"}`, "--pod-label-prefix=pod_label_",
			"--pod-namespace-label=kubernetes_namespace", "--pod-name-label=kubernetes_pod_name")...)
		require.Len(t, pods, 3)
		require.Nil(t, pods[0].Labels)
		require.Equal(t, map[string]string{"app": "up"}, pods[1].Labels)
		require.Nil(t, pods[2].Labels)
		require.ErrorContains(t, err, `pods with usage but without labels in up{job="kubernetes-pods"}`)
	})

	t.Run("one namespace only", func(t *testing.T) {
		c := config(t, p.args()...)
		c.Namespace = "kube-system"
		source, err := history.New(c, clock.RealClock{}, logr.Discard())
		require.NoError(t, err)
		pods, _ := source.Load(t.Context(), now)
		require.Equal(t, []string{"kube-system/dns-1"}, podNames(pods))
	})

	t.Run("a query that Prometheus refuses affects no other", func(t *testing.T) {
		pods, err := load(t, now, append(p.args(), "--metric-for-pod-labels=kube_pod_labels[")...)
		require.ErrorContains(t, err, "queries for kube_pod_labels[ failed: 1, e.g. ")
		require.Len(t, pods, 3)
		require.Equal(t, written.samples[pods[1].ID], pods[1].Samples())
		require.Nil(t, pods[1].Labels)

		pods, err = load(t, now, append(p.args(), "--history-memory-metric=misspelt")...)
		require.ErrorContains(t, err, "queries for misspelt that found no series (see the metric's name, ")
		require.Equal(t, written.only(pods[1].ID, model.CPU), pods[1].Samples())
	})

	t.Run("more samples than Prometheus returns in one response", func(t *testing.T) {
		pods, err := load(t, now, append(p.args(), "--history-resolution=20s")...)
		require.Len(t, pods[1].Samples(), 2*(72*180+1), "of memory; Prometheus allows 11,000 of a series")
		require.ErrorContains(t, err, "queries for cpu_seconds that found no series", "two minutes between points are too long for this resolution")
		require.ErrorContains(t, err, "--history-resolution must hold two scrapes")
	})

	require.NoError(t, p.Stop())
	t.Run("after a restart, with a query limit and a password", func(t *testing.T) {
		// Load starts before Prometheus does, and logs it; then Prometheus starts.
		started := make(chan error, 1)
		var once sync.Once
		log := funcr.New(func(_, line string) {
			once.Do(func() { started <- p.Start("--query.max-samples=150", "--web.config.file="+p.webConfig(t)) })
		}, funcr.Options{})
		// The rate over four hours reads 120 samples of each series in addition to those that it
		// returns, so that few are read at a time.
		source, err := history.New(config(t, append(p.args(), "--history-resolution=4h", "--metric-for-pod-labels=kube_pod_labels",
			"--username=celvpa", "--password=open sesame")...), clock.RealClock{}, log)
		require.NoError(t, err)
		pods, err := source.Load(t.Context(), now)
		require.NoError(t, <-started)
		require.NotContains(t, err.Error(), "failed")
		require.Len(t, pods, 3)
		var want []model.Sample
		for _, s := range written.only(pods[1].ID, model.Memory) {
			if now.Sub(s.At)%(4*time.Hour) == 0 {
				want = append(want, s)
			}
		}
		var got []model.Sample
		cpu := 0
		for _, s := range pods[1].Samples() {
			if s.Resource == model.Memory {
				got = append(got, s)
			} else {
				cpu++
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, len(want), cpu)
		require.Equal(t, map[string]string{"app": "web", "tier": "front"}, pods[1].Labels)

		t.Setenv("PROMETHEUS_USERNAME", "celvpa")
		t.Setenv("PROMETHEUS_PASSWORD", "open sesame")
		pods, _ = load(t, now, p.args()...)
		require.Len(t, pods, 3, "the environment has the credentials")

		pods, err = load(t, now, append(p.args(), "--username=celvpa", "--password=wrong")...)
		require.Empty(t, pods)
		require.ErrorContains(t, err, "failed (see --prometheus-address and the flags for credentials): 1, e.g. ")
		require.ErrorContains(t, err, "client_error: client error: 401: Unauthorized")
	})

	t.Run("behind a gateway with a bearer token", func(t *testing.T) {
		target, err := url.Parse(p.Address)
		require.NoError(t, err)
		target.User = url.UserPassword("celvpa", "open sesame")
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer the-token" {
				http.Error(w, "no token", http.StatusUnauthorized)
				return
			}
			r.SetBasicAuth("celvpa", "open sesame")
			httputil.NewSingleHostReverseProxy(target).ServeHTTP(w, r)
		}))
		defer gateway.Close()
		file := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte("the-token\n"), 0o600))
		args := append(p.args(), "--prometheus-address="+gateway.URL, "--prometheus-bearer-token=another", "--prometheus-bearer-token-file="+file)
		pods, _ := load(t, now, args...)
		require.Len(t, pods, 3)
	})
}

// config returns the configuration for flags.
func config(t *testing.T, args ...string) history.Config {
	t.Helper()
	var c history.Config
	flags := pflag.NewFlagSet("history", pflag.ContinueOnError)
	history.AddFlags(flags, &c)
	require.NoError(t, flags.Parse(args))
	return c
}

func load(t *testing.T, now time.Time, args ...string) ([]history.Pod, error) {
	t.Helper()
	source, err := history.New(config(t, args...), clock.RealClock{}, logr.Discard())
	require.NoError(t, err)
	return source.Load(t.Context(), now)
}

func podNames(pods []history.Pod) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, p.ID.Namespace+"/"+p.ID.Name)
	}
	return out
}

// written is what Load must return.
type written struct {
	samples map[model.PodID][]model.Sample
}

func (w written) only(id model.PodID, r model.Resource) []model.Sample {
	var out []model.Sample
	for _, s := range w.samples[id] {
		if s.Resource == r {
			out = append(out, s)
		}
	}
	return out
}

// historyLength is the length of the history, at a resolution of one hour: 73 samples of each
// container and resource.
const historyLength = 3 * 24 * time.Hour

// writeHistory fills Prometheus with a point of every series every two minutes. CPU usage is
// constant in the hour before each sample that is read, so the rate is exact; half milli-cores and
// fractions of bytes are cut off.
func writeHistory(t *testing.T, p prometheus, now time.Time) written {
	t.Helper()
	w := written{samples: map[model.PodID][]model.Sample{}}
	begin := now.Add(-historyLength)
	const tick = 2 * time.Minute
	usage := func(namespace, pod, container string, seed int64, hours int64) {
		labels := map[string]string{"job": "kubernetes-cadvisor", "namespace": namespace, "pod_name": pod, "name": container, "image": "x"}
		var cpu, memory []harness.DataPoint
		seconds := 1e6
		for at := begin.Add(-2 * time.Hour); !at.After(begin.Add(time.Duration(hours) * time.Hour)); at = at.Add(tick) {
			hour := int64((at.Sub(begin) + 3*time.Hour - 1) / time.Hour) // of the sample that this is part of
			milli, size := seed+hour*7%500, seed*1e6+hour*4096
			seconds += (float64(milli) + 0.5) / 1000 * tick.Seconds()
			cpu = append(cpu, harness.Point(at, seconds, labels))
			memory = append(memory, harness.Point(at, float64(size)+0.75, labels))
			if at.Before(begin) || at.Sub(begin)%time.Hour != 0 {
				continue
			}
			id := model.PodID{Namespace: namespace, Name: pod}
			w.samples[id] = append(w.samples[id],
				model.Sample{Pod: id, Container: container, Resource: model.CPU, Amount: milli, At: at.UTC()},
				model.Sample{Pod: id, Container: container, Resource: model.Memory, Amount: size, At: at.UTC()})
		}
		p.write(t, "cpu_seconds", cpu)
		p.write(t, "memory_bytes", memory)
	}
	usage("shop", "web-1", "app", 100, 72)
	usage("shop", "web-1", "sidecar", 3, 72)
	usage("shop", "web-2", "app", 150, 31) // gone since
	usage("kube-system", "dns-1", "dns", 20, 72)
	for _, list := range w.samples {
		sort.SliceStable(list, func(i, j int) bool { return list[i].At.Before(list[j].At) })
	}

	// Series that must not count: the sandbox, the sum over a pod, another job.
	flat := func(metric string, value float64, labels map[string]string, from, to time.Duration) {
		var points []harness.DataPoint
		for at := begin.Add(from); !at.After(begin.Add(to)); at = at.Add(tick) {
			points = append(points, harness.Point(at, value, labels))
		}
		p.write(t, metric, points)
	}
	for _, metric := range []string{"cpu_seconds", "memory_bytes"} {
		flat(metric, 5, map[string]string{"job": "kubernetes-cadvisor", "namespace": "shop", "pod_name": "web-1", "name": "POD"}, 0, historyLength)
		flat(metric, 5, map[string]string{"job": "kubernetes-cadvisor", "namespace": "shop", "pod_name": "web-1"}, 0, historyLength)
		flat(metric, 5, map[string]string{"job": "another", "namespace": "shop", "pod_name": "web-1", "name": "app"}, 0, historyLength)
	}
	// Invalid data: a series without namespace, over all days, and two negative samples.
	flat("cpu_seconds", 5, map[string]string{"job": "kubernetes-cadvisor", "pod_name": "stray", "name": "app"}, 0, historyLength)
	flat("memory_bytes", -1, map[string]string{"job": "kubernetes-cadvisor", "namespace": "shop", "pod_name": "below", "name": "app"}, 50*time.Hour, 51*time.Hour)

	flat("kube_pod_labels", 1, map[string]string{"namespace": "shop", "pod": "web-1", "label_app": "old"}, 0, 48*time.Hour)
	flat("kube_pod_labels", 1, map[string]string{"namespace": "shop", "pod": "web-1", "label_app": "web", "label_tier": "front"}, 48*time.Hour, historyLength)
	flat("kube_pod_labels", 1, map[string]string{"namespace": "shop", "pod": "web-2", "label_app": "web"}, 0, 31*time.Hour)
	flat("up", 1, map[string]string{"job": "kubernetes-pods", "kubernetes_namespace": "shop", "kubernetes_pod_name": "web-1", "pod_label_app": "up"}, historyLength-time.Hour, historyLength)
	return w
}
