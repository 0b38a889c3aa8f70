package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/harness"
)

// TestAlertsFireWhenTheyShould runs deploy/monitoring/alerts_test.yaml.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	if testing.Short() {
		t.Skip("needs promtool, which takes minutes to build the first time: make test-lab")
	}
	promtool, err := harness.Part(t.Context(), "promtool", os.Stdout)
	require.NoError(t, err)
	for _, args := range [][]string{{"check", "rules", "--lint=all", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = filepath.Join(repository(t), "deploy", "monitoring")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "promtool %v: %s", args, out)
	}
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	return root
}
