package history

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/harness"
)

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
