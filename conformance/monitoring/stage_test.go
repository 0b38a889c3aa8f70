package monitoring

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/stretchr/testify/require"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// stage is a lab with the three components, kube-state-metrics and a Prometheus that scrapes them and has the alerts.
type stage struct {
	cluster      *harness.Cluster
	prometheus   promv1.API
	stateMetrics string // address
}

// scrapeEvery is far below what is usual, so that rates need no minutes.
const scrapeEvery = time.Second

func newStage(t *testing.T) *stage {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	ctx := t.Context()
	part := func(name string) string {
		path, err := harness.Part(ctx, name, os.Stdout)
		require.NoError(t, err)
		return path
	}
	prometheus, stateMetrics := part("prometheus"), part("kube-state-metrics")
	celvpa, err := harness.Build(ctx)
	require.NoError(t, err)
	lab, err := harness.Up(ctx, "monitoring", os.Stdout)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lab.Down(context.Background(), os.Stdout)) })
	s := &stage{}
	s.cluster, err = harness.Connect(lab.Kubeconfig)
	require.NoError(t, err)
	require.NoError(t, s.cluster.InstallCRDs(ctx, false))

	dir := t.TempDir()
	targets := map[string]string{}
	for component, args := range map[string][]string{"recommender": {"--recommender-interval=2s"}, "updater": {"--updater-interval=2s"}, "admission-controller": nil} {
		address := free(t)
		if component == "admission-controller" {
			args, address, err = harness.LocalWebhookArgs("127.0.0.1")
			require.NoError(t, err)
		} else {
			args = append(args, "--address="+address)
		}
		args = append([]string{component, "--kubeconfig=" + lab.Kubeconfig, "--feature-gates=PodLevelResources=true"}, args...)
		process, err := harness.Start(celvpa, address, filepath.Join(dir, component+".log"), args, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, process.Stop(), component) })
		require.NoError(t, process.WaitReady(ctx))
		targets["celvpa-"+component] = address
	}
	s.stateMetrics = s.startStateMetrics(t, stateMetrics, lab.Kubeconfig, dir)
	targets["kube-state-metrics"] = s.stateMetrics
	s.startPrometheus(t, prometheus, dir, targets)
	return s
}

// startStateMetrics runs kube-state-metrics with our configuration.
func (s *stage) startStateMetrics(t *testing.T, program, kubeconfig, dir string) (address string) {
	t.Helper()
	address = free(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	_, telemetry, err := net.SplitHostPort(free(t))
	require.NoError(t, err)
	launch(t, program, address, filepath.Join(dir, "kube-state-metrics.log"), "/healthz", "--kubeconfig="+kubeconfig, "--resources=pods",
		"--custom-resource-state-config-file="+filepath.Join(repository(t), "deploy", "monitoring", "kube-state-metrics.yaml"),
		"--host=127.0.0.1", "--port="+port, "--telemetry-host=127.0.0.1", "--telemetry-port="+telemetry)
	return address
}

func (s *stage) startPrometheus(t *testing.T, program, dir string, targets map[string]string) {
	t.Helper()
	config := fmt.Sprintf("global: {scrape_interval: %s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n",
		scrapeEvery, filepath.Join(repository(t), "deploy", "monitoring", "alerts.yaml"))
	for job, address := range targets {
		config += fmt.Sprintf("- {job_name: %s, honor_labels: true, static_configs: [{targets: [%q]}]}\n", job, address)
	}
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	address := free(t)
	launch(t, program, address, filepath.Join(dir, "prometheus.log"), "/-/ready", "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	require.NoError(t, err)
	s.prometheus = promv1.NewAPI(client)
}

// launch starts a program that ends with the test, and waits until a path of its address answers.
func launch(t *testing.T, program, address, log, path string, args ...string) {
	t.Helper()
	process, err := harness.Launch(program, address, log, args, nil)
	require.NoError(t, err)
	t.Cleanup(func() { process.Kill() })
	require.Eventually(t, func() bool {
		_, err := harness.Get(t.Context(), "http://"+address+path)
		return err == nil
	}, hang.Limit, 100*time.Millisecond, "%s does not answer; its log is %s", program, log)
}

func free(t *testing.T) string {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	return address
}
