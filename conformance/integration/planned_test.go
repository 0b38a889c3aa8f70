package integration

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// thePlanIsWhatTheUpdaterDoes: for all pods of a namespace, celvpa plan names the rule that the
// updater applies in its first cycle.
func thePlanIsWhatTheUpdaterDoes(t *testing.T) {
	ns := namespace(t, "up-plan")
	const (
		recreate = "updatePolicy: {updateMode: Recreate}"
		either   = "updatePolicy: {updateMode: InPlaceOrRecreate}"
		inPlace  = "updatePolicy: {updateMode: InPlace}"
	)
	want := target("200m", "200Mi")
	all := map[string]struct {
		replicas                  int
		pod, spec, recommendation string
		says                      corev1.PodConditionType
		reason                    string
		ago                       time.Duration
	}{
		"evicted":     {replicas: 4, spec: recreate, recommendation: want},
		"resized":     {replicas: 3, spec: either, recommendation: want},
		"bounded":     {replicas: 2, spec: "{" + either + ", resourcePolicy: {containerPolicies: [{containerName: a, maxAllowed: {cpu: 150m, memory: 100Mi}}]}}", recommendation: target("100", "100Gi")},
		"lonely":      {replicas: 1, spec: recreate, recommendation: want},
		"alone":       {replicas: 1, spec: one("InPlace"), recommendation: want},
		"unknown":     {replicas: 2, spec: recreate},
		"off":         {replicas: 2, spec: one("Off"), recommendation: want},
		"initial":     {replicas: 2, spec: one("Initial"), recommendation: want},
		"equal":       {replicas: 2, spec: either, recommendation: target("100m", "100Mi")},
		"held":        {replicas: 2, spec: "{" + recreate + ", resourcePolicy: {containerPolicies: [{containerName: a, mode: 'Off'}]}}", recommendation: want},
		"required":    {replicas: 2, spec: "updatePolicy: {updateMode: Recreate, evictionRequirements: [{resources: [cpu], changeRequirement: TargetLowerThanRequests}]}", recommendation: want},
		"whole":       {replicas: 2, pod: ofItsOwn, spec: either, recommendation: moreForBoth},
		"wholegone":   {replicas: 2, pod: ofItsOwn, spec: recreate, recommendation: moreForBoth},
		"changed":     {replicas: 2, pod: "containers: [{name: a, resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 100m, memory: 100Mi}}}]", spec: "{" + either + ", " + twice + "}", recommendation: want},
		"infeasible":  {replicas: 2, spec: inPlace, recommendation: want, says: corev1.PodResizePending, reason: corev1.PodReasonInfeasible},
		"infeasible2": {replicas: 2, spec: either, recommendation: want, says: corev1.PodResizePending, reason: corev1.PodReasonInfeasible},
		"deferred":    {replicas: 2, spec: either, recommendation: want, says: corev1.PodResizePending, reason: corev1.PodReasonDeferred},
		"deferred2":   {replicas: 2, spec: either, recommendation: want, says: corev1.PodResizePending, reason: corev1.PodReasonDeferred, ago: time.Hour},
		"progress":    {replicas: 2, spec: inPlace, recommendation: want, says: corev1.PodResizeInProgress, ago: 300 * time.Hour},
		"boosted":     {replicas: 2, spec: "{" + either + ", startupBoost: {cpu: {type: Factor, factor: 2, durationSeconds: 3600}}}", recommendation: want},
	}
	for app, c := range all {
		pod := c.pod
		if pod == "" {
			pod = small
		}
		create(t, deployment(t, ns, app, int32(c.replicas), pod))
	}
	for app, c := range all {
		list := up(t, ns, app, c.replicas)
		if c.reason != "" || c.says != "" {
			kubeletSays(t, list, c.says, c.reason, c.ago)
		}
		if app == "boosted" {
			for _, p := range list {
				annotate(t, &p, boostOfA, `{"requests":{"cpu":"50m","memory":"100Mi"},"limits":{}}`)
			}
		}
		watchedOver(t, ns, app, c.spec, c.recommendation)
	}
	planned := plan(t, ns)

	u := startUpdater(t, ns, "--updater-interval=2m") // what one cycle may take, also on a busy machine
	hang.Eventually(t, "the first cycle", func(context.Context) (bool, error) {
		return harness.Metric(u.Address, `vpa_updater_execution_latency_seconds_count{step="total"}`) >= 1, nil
	})
	require.NoError(t, u.Stop())
	action := func(do string) string { // a plan remembers nothing
		return map[string]string{"RememberInfeasible": "Wait", "SkipInfeasible": "Skip"}[do]
	}
	done := map[string]string{}
	for _, line := range u.Lines() {
		if line.Text("msg") == "decided" { // the last one counts: a group that changes has its pods decided on anew
			done[line.Text("pod")] = cmp.Or(action(line.Text("do")), line.Text("do")) + " " + line.Text("rule")
		}
	}
	require.GreaterOrEqual(t, len(planned), len(done), "each pod has a line")
	var differ []string
	for pod, as := range planned {
		switch did, decided := done[pod]; {
		case !decided && !strings.HasPrefix(as, "Skip "):
			differ = append(differ, pod+": planned "+as+", and nothing was decided")
		case did == "Wait eligibility/boosted": // by whom: the plan says more
			require.Equal(t, "Wait unboost/not-over", as)
		case decided && did != as:
			differ = append(differ, pod+": planned "+as+", decided "+did)
		}
	}
	require.Empty(t, differ)
	for _, rule := range []string{"update/evict", "update/budget-spent", "update/resize", "eligibility/too-few-replicas", "eligibility/no-recommendation", "eligibility/within-recommended-range",
		"eligibility/eviction-requirements-unmet", "update/qos-class", "resize/kubelet-says-infeasible", "update/infeasible-resize", "resize/resize-under-way", "update/deferred-too-long", "eligibility/boosted"} {
		require.Contains(t, strings.Join(slices.Collect(maps.Values(done)), ", "), rule)
	}
}

// plan is the output of celvpa plan for a namespace, by pod: the action and the rule.
func plan(t *testing.T, ns string) map[string]string {
	t.Helper()
	return planOf(t, ns, "-f", manifestsOf(t, ns))
}

// manifestsOf is a file with the objects of a namespace.
func manifestsOf(t *testing.T, ns string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.yaml")
	var text []byte
	for kind, group := range map[string]string{"PodList": "/v1", "DeploymentList": "apps/v1", "ReplicaSetList": "apps/v1", "VerticalPodAutoscalerList": "autoscaling.k8s.io/v1"} {
		list := &unstructured.UnstructuredList{}
		gv, err := schema.ParseGroupVersion(strings.TrimPrefix(group, "/"))
		require.NoError(t, err)
		list.SetGroupVersionKind(gv.WithKind(kind))
		require.NoError(t, cluster.List(t.Context(), list, client.InNamespace(ns)))
		for i := range list.Items {
			document, err := yaml.Marshal(list.Items[i].Object)
			require.NoError(t, err)
			text = append(append(text, "---\n"...), document...)
		}
	}
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// planOf is plan for the objects that flags select.
func planOf(t *testing.T, ns string, flags ...string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"plan", "-o", "json", updaterGates}, flags...)...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	require.NoError(t, cmd.Run(), stderr.String())
	var report struct {
		Items []struct{ Pod, Action, Rule string } `json:"items"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	said := map[string]string{}
	for _, item := range report.Items {
		name, found := strings.CutPrefix(item.Pod, ns+"/")
		require.True(t, found, item.Pod)
		said[name] = item.Action + " " + item.Rule
	}
	return said
}

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
