package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOfflineCommandsReadTheCluster with kubectl's flags when no manifests are given, and name
// missing permissions.
func TestOfflineCommandsReadTheCluster(t *testing.T) {
	ns := namespace(t, "it-live")
	create(t, deployment(t, ns, "shop", 2, small))
	up(t, ns, "shop", 2)
	watchedOver(t, ns, "shop", one("Recreate"), target("200m", "200Mi"))
	at := []string{"--kubeconfig=" + kubeconfig, "-n", ns}

	require.Equal(t, plan(t, ns), planOf(t, ns, at...), "as of the same objects in a file")
	for _, command := range []string{"validate", "admit"} {
		ended := runToEnd(append([]string{command}, at...)...)
		require.NoError(t, ended.err)
		require.Zero(t, ended.code, ended.stderr)
		require.Empty(t, ended.stderr)
	}
	empty := runToEnd("plan", "--kubeconfig="+kubeconfig, "-n", "nowhere")
	require.Equal(t, 2, empty.code)
	require.Equal(t, "celvpa: there is no pod and no VerticalPodAutoscaler in namespace nowhere of the cluster: nothing was planned", empty.lastLine())

	refused := runToEnd(append([]string{"plan", "--as=nobody"}, at...)...)
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr, `celvpa: the answer is without the RuleOverlays of the cluster: cannot read ruleoverlays.rules.celvpa.dev of the cluster: `)
	for _, resource := range []string{"verticalpodautoscalers.autoscaling.k8s.io", "pods", "deployments.apps", "limitranges", "poddisruptionbudgets.policy"} {
		require.Regexp(t, `(?m)^celvpa: cannot read `+resource+` in namespace `+ns+`: .*User "nobody" cannot list .*; grant list on `+resource+` there, or read another namespace with -n$`, refused.stderr)
	}
	everywhere := runToEnd("validate", "--kubeconfig="+kubeconfig, "-A", "--as=nobody")
	require.Regexp(t, `in all namespaces: .*; grant list on verticalpodautoscalers\.autoscaling\.k8s\.io, or read one namespace with -n`, everywhere.stderr)
}

// TestABacktestReadsTheCluster: its answer is that of the same objects in a file.
func TestABacktestReadsTheCluster(t *testing.T) {
	ns := namespace(t, "it-backtest")
	create(t, deployment(t, ns, "shop", 2, small))
	running := up(t, ns, "shop", 2)
	watchedOver(t, ns, "shop", one("Recreate"), target("200m", "200Mi"))
	var rows strings.Builder
	begin := time.Now().Add(-48 * time.Hour).Truncate(time.Hour)
	for _, pod := range running {
		for step := range 2 * 24 * 12 {
			at := begin.Add(time.Duration(step) * 5 * time.Minute).Unix()
			fmt.Fprintf(&rows, "%[1]d,%[2]s,%[3]s,%[4]s,cpu,0.3\n%[1]d,%[2]s,%[3]s,%[4]s,memory,300000000\n", at, ns, pod.Name, pod.Spec.Containers[0].Name)
		}
	}
	usage := filepath.Join(t.TempDir(), "usage.csv")
	require.NoError(t, os.WriteFile(usage, []byte(rows.String()), 0o600))
	answer := func(args ...string) string {
		ended := runToEnd(append([]string{"backtest", "-o", "json", "--series=10"}, args...)...)
		require.NoError(t, ended.err)
		require.Zero(t, ended.code, ended.stderr)
		require.Empty(t, regexp.MustCompile(`(?m)^celvpa: replaying: .*\n`).ReplaceAllString(ended.stderr, ""), "only its progress, where it is slow")
		return ended.stdout
	}
	at := []string{"--kubeconfig=" + kubeconfig, "-n", ns, "--history=" + usage}
	of := answer(at...)
	require.Contains(t, of, `"vpa": "shop"`)
	require.Contains(t, of, `"type": "Evicted"`)
	require.Equal(t, answer("-f", manifestsOf(t, ns), "--history="+usage), of)

	refused := runToEnd(append([]string{"backtest", "--as=nobody"}, at...)...)
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.stderr, "grant list on deployments.apps there")
	require.Contains(t, refused.stderr, "nothing was replayed")
}
