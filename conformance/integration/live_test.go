package integration

import (
	"testing"

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
