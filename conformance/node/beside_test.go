package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/harness"
)

// startBeside runs all components in one process, with the flags of testdata/values.yaml.
func startBeside(ctx context.Context) (stop func(), err error) {
	if lab == nil {
		return nil, errors.New("-beside needs the lab's node: the API server of another cluster does not reach this machine")
	}
	if err := cluster.InstallCRDs(ctx, false); err != nil {
		return nil, err
	}
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "conformance", "node", "testdata", "values.yaml"))
	if err != nil {
		return nil, err
	}
	var values struct {
		FeatureGates         map[string]bool
		Recommender, Updater struct{ ExtraArgs []string }
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	if err != nil {
		return nil, err
	}
	args = append(append([]string{"run", "--kubeconfig=" + kubeconfig}, args...), values.Recommender.ExtraArgs...)
	args = append(args, values.Updater.ExtraArgs...)
	var gates []string
	for _, gate := range slices.Sorted(maps.Keys(values.FeatureGates)) {
		gates = append(gates, fmt.Sprintf("%s=%t", gate, values.FeatureGates[gate]))
	}
	args = append(args, "--feature-gates="+strings.Join(gates, ","))
	process, err := harness.Start(program, address, filepath.Join(root, "bin", "node", "celvpa.log"), args, nil)
	if err != nil {
		return nil, err
	}
	return process.Kill, process.WaitReady(ctx)
}

// needsPods skips a test of celvpa's own pods.
func needsPods(t *testing.T) {
	t.Helper()
	if *beside {
		t.Skip("celvpa runs beside the cluster (-beside), and this is about its pods")
	}
}

// besideWaits stands in for the answers of celvpa's pods: two cycles.
const besideWaits = 15 * time.Second
