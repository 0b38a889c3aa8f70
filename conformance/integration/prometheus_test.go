package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	prommodel "github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/harness"
)

// dataPoint is an OpenTelemetry data point; Prometheus accepts points of any age in that form.
type dataPoint struct {
	Time       string      `json:"timeUnixNano"`
	Value      float64     `json:"asDouble"`
	Attributes []attribute `json:"attributes"`
}

type attribute struct {
	Key   string `json:"key"`
	Value struct {
		Text string `json:"stringValue"`
	} `json:"value"`
}

func point(at time.Time, value float64, labels map[string]string) dataPoint {
	out := dataPoint{Time: strconv.FormatInt(at.UnixNano(), 10), Value: value}
	for key, text := range labels {
		one := attribute{Key: key}
		one.Value.Text = text
		out.Attributes = append(out.Attributes, one)
	}
	return out
}

// prometheus is a real one on loopback, without scrape targets.
type prometheus struct {
	program string
	address string
	dir     string
	cmd     *exec.Cmd
	log     *bytes.Buffer
}

// newPrometheus builds Prometheus if necessary, starts an empty one, and stops it when the test
// ends.
func newPrometheus(t *testing.T) *prometheus {
	t.Helper()
	program, err := harness.Part(t.Context(), "prometheus", os.Stdout)
	require.NoError(t, err)
	p := &prometheus{program: program, dir: t.TempDir()}

	address, err := harness.FreeAddress()
	require.NoError(t, err)
	p.address = "http://" + address
	config := "otlp: {translation_strategy: NoTranslation}\nstorage: {tsdb: {out_of_order_time_window: 30d}}\n"
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "prometheus.yml"), []byte(config), 0o600))
	t.Cleanup(func() { p.stop(t) })
	require.NoError(t, p.start())
	require.Eventually(t, func() bool {
		answer, err := http.Get(p.address + "/-/ready")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, 30*time.Second, 100*time.Millisecond, "Prometheus is not ready: %s", p.log)
	return p
}

// args are flags that read from this Prometheus what writeHistory wrote.
func (p *prometheus) args() []string {
	return []string{"--prometheus-address=" + p.address, "--history-length=" + prommodel.Duration(historyLength).String(), "--history-resolution=1h",
		"--history-cpu-metric=cpu_seconds", "--history-memory-metric=memory_bytes", "--metric-for-pod-labels=kube_pod_labels[4d]",
		"--pod-label-prefix=label_", "--pod-namespace-label=namespace", "--pod-name-label=pod"}
}

// start does not wait for readiness.
func (p *prometheus) start(args ...string) error {
	p.log = &bytes.Buffer{}
	p.cmd = exec.Command(p.program, append([]string{"--config.file=" + filepath.Join(p.dir, "prometheus.yml"),
		"--storage.tsdb.path=" + filepath.Join(p.dir, "data"), "--storage.tsdb.retention.time=90d", "--web.enable-otlp-receiver",
		"--web.listen-address=" + strings.TrimPrefix(p.address, "http://"), "--log.level=warn"}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to pass on
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting Prometheus: %w", err)
	}
	return nil
}

// stop stops it and keeps its data.
func (p *prometheus) stop(t *testing.T) {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("Prometheus ended with %v: %s", err, p.log)
	}
	p.cmd = nil
}

// webConfig requires basic auth of user celvpa with password "open sesame".
func (p *prometheus) webConfig(t *testing.T) string {
	file := filepath.Join(p.dir, "web.yml")
	const users = "basic_auth_users: {celvpa: '$2a$04$d9OpNfdNne5XmEZA0rps/e564UXHYIgSbvko5O0k3LENcdai7RyB2'}\n"
	require.NoError(t, os.WriteFile(file, []byte(users), 0o600))
	return file
}

// write adds points of one metric.
func (p *prometheus) write(t *testing.T, metric string, points []dataPoint) {
	t.Helper()
	type object = map[string]any
	body, err := json.Marshal(object{"resourceMetrics": []object{{"scopeMetrics": []object{{"metrics": []object{
		{"name": metric, "gauge": object{"dataPoints": points}}}}}}}})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.address+"/api/v1/otlp/v1/metrics", bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", metric, text)
}
