package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// DataPoint is an OpenTelemetry data point; Prometheus accepts points of any age in that form.
type DataPoint struct {
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

// Point is a data point of a series with these labels.
func Point(at time.Time, value float64, labels map[string]string) DataPoint {
	out := DataPoint{Time: strconv.FormatInt(at.UnixNano(), 10), Value: value}
	for key, text := range labels {
		a := attribute{Key: key}
		a.Value.Text = text
		out.Attributes = append(out.Attributes, a)
	}
	return out
}

// Prometheus is a real one on loopback, without scrape targets. It needs no cluster.
type Prometheus struct {
	Address string // its URL

	program, dir string
	cmd          *exec.Cmd
	log          *bytes.Buffer
}

// StartPrometheus builds Prometheus if necessary, and starts an empty one that keeps its files in dir.
func StartPrometheus(ctx context.Context, dir string) (*Prometheus, error) {
	program, err := Part(ctx, "prometheus", os.Stdout)
	if err != nil {
		return nil, err
	}
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Prometheus{Address: "http://" + address, program: program, dir: dir}
	config := "otlp: {translation_strategy: NoTranslation}\nstorage: {tsdb: {out_of_order_time_window: 30d}}\n"
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, hung, true, func(ctx context.Context) (bool, error) {
		_, err := Get(ctx, p.Address+"/-/ready")
		return err == nil, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for Prometheus: %w: %s", err, p.log), p.Stop())
	}
	return p, nil
}

// Start starts it again, with more flags. It does not wait for readiness. Blocks are as long as the
// history, so that there is nothing to compact: a Prometheus that is stopped meanwhile may panic.
func (p *Prometheus) Start(flags ...string) error {
	p.log = &bytes.Buffer{}
	p.cmd = exec.Command(p.program, append([]string{"--config.file=" + filepath.Join(p.dir, "prometheus.yml"),
		"--storage.tsdb.path=" + filepath.Join(p.dir, "data"), "--storage.tsdb.retention.time=90d",
		"--storage.tsdb.min-block-duration=60d", "--storage.tsdb.max-block-duration=60d", "--web.enable-otlp-receiver",
		"--web.listen-address=" + strings.TrimPrefix(p.Address, "http://"), "--log.level=warn"}, flags...)...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to pass on
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return fmt.Errorf("starting Prometheus: %w", err)
	}
	return nil
}

// Stop stops it and keeps its data.
func (p *Prometheus) Stop() error {
	if p.cmd == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(hung, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	err := p.cmd.Wait()
	p.cmd = nil
	if err != nil {
		return fmt.Errorf("Prometheus ended with %w: %s", err, p.log)
	}
	return nil
}

// Write adds points of one metric.
func (p *Prometheus) Write(ctx context.Context, metric string, points []DataPoint) error {
	type object = map[string]any
	body, err := json.Marshal(object{"resourceMetrics": []object{{"scopeMetrics": []object{{"metrics": []object{
		{"name": metric, "gauge": object{"dataPoints": points}}}}}}}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Address+"/api/v1/otlp/v1/metrics", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("writing %s: %s: %s", metric, answer.Status, text)
	}
	return err
}
