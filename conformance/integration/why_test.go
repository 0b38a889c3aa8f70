package integration

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/inspect"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/explain"
)

// nobodysRecommender keeps the recommender from writing what a test writes.
const nobodysRecommender = "recommenders: [{name: nobody}]"

// explained asks `celvpa explain` about an object until the report is as it should be, and returns it.
func explained(t *testing.T, ns, system, name string, done func(*explain.Report) bool) *explain.Report {
	t.Helper()
	var r *explain.Report
	hang.Eventually(t, "the explanation of "+name, func(ctx context.Context) (bool, error) {
		out, err := exec.CommandContext(ctx, program, "explain", name, "-n", ns, "--kubeconfig", kubeconfig, "--celvpa-namespace", system, "-o", "json").Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("explain %s: %s", name, exit.Stderr)
		}
		r = &explain.Report{}
		if err := json.Unmarshal(out, r); err != nil {
			return false, err
		}
		return done(r), nil
	})
	return r
}

// tokens are those of the findings of a report, each with what it says.
func tokens(r *explain.Report) string {
	var lines []string
	for _, f := range r.Findings {
		lines = append(lines, f.Class+" "+f.Token+" "+f.About+": "+f.Text+" → "+f.WayOut)
	}
	return strings.Join(lines, "\n")
}

// why has the ten questions that users of VPAs ask most. Each is a workload, and the answer is
// asserted by its token and its number.
func why(t *testing.T) {
	address, err := harness.OutsideAddress()
	if errors.Is(err, harness.ErrNoOutsideAddress) {
		t.Skip(err)
	}
	require.NoError(t, err)
	withoutCelvpa(t)
	ns, system := namespace(t, "why"), namespace(t, "why-system")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: inspect.ServiceAccount}}
	create(t, account)
	bound(t, "why", "", []rbacv1.PolicyRule{{APIGroups: []string{vpav1.GroupVersion.Group}, Resources: []string{"verticalpodautoscalers/explain"}, Verbs: []string{"get"}}}, account)
	history := map[string]vpav1.VerticalPodAutoscalerCheckpointStatus{
		"idle": harness.Remembered(3*24*60, time.Minute, func(int) int64 { return 1 }, func(int) int64 { return 1 << 20 }), "young": harness.Remembered(90, time.Minute, func(int) int64 { return 100 }, func(int) int64 { return 100 << 20 }),
		"shrunk": harness.Days(3, 2000, 2<<30), "oom": harness.Days(3, 100, 100<<20),
	}
	for name, status := range history {
		create(t, vpa(ns, name, vpav1.UpdateModeOff), harness.Checkpoint(ns, name, "app", status))
	}
	create(t, unused(ns, "idle", "app", "side"), unused(ns, "young", "app"), unused(ns, "oom", "app"), steady(ns, "shrunk", 1))
	create(t, vpa(ns, "unmeasured", vpav1.UpdateModeOff), unused(ns, "unmeasured", "app"))
	gone := vpa(ns, "gone", vpav1.UpdateModeOff)
	empty := vpa(ns, "empty", vpav1.UpdateModeOff)
	create(t, gone, empty, deployment(t, ns, "empty", 0, small))

	const policy = "updatePolicy: {updateMode: Recreate}"
	ranged := func(cpu string) string {
		return "containerRecommendations: [{containerName: a, target: {cpu: " + cpu + ", memory: 100Mi}, lowerBound: {cpu: 50m, memory: 50Mi}, upperBound: {cpu: 1, memory: 1Gi}}]"
	}
	watchedOver(t, ns, "within", "{"+nobodysRecommender+", "+policy+"}", ranged("120m"))
	watchedOver(t, ns, "alone", "{"+nobodysRecommender+", "+policy+"}", target("500m", "500Mi"))
	watchedOver(t, ns, "paused", "{"+nobodysRecommender+", "+policy+"}", target("500m", "500Mi"))
	watchedOver(t, ns, "capped", "{"+nobodysRecommender+", "+policy+", resourcePolicy: {containerPolicies: [{containerName: a, maxAllowed: {memory: 500Mi}}]}}", ranged("100m"))
	recommendNow(t, ns, "capped", "containerRecommendations: [{containerName: a, target: {memory: 500Mi}, lowerBound: {memory: 400Mi}, upperBound: {memory: 500Mi}}]")
	watchedOver(t, ns, "stuck", "{"+nobodysRecommender+", updatePolicy: {updateMode: InPlaceOrRecreate}}", target("500m", "500Mi"))
	create(t,
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "paused"}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &intstr.IntOrString{Type: intstr.String, StrVal: "100%"}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "paused"}}}},
		scaledByCPU(t, ns, "alone"))
	deployed(t, ns, "within", 2, small)
	deployed(t, ns, "alone", 1, small)
	deployed(t, ns, "paused", 2, small)
	deployed(t, ns, "capped", 2, "containers: [{name: a, resources: {requests: {memory: 100Mi}, limits: {memory: 200Mi}}}]")
	inPhase(t, deployed(t, ns, "stuck", 2, small), corev1.PodUnknown) // the lab's nodes leave it alone
	kubeletSaysWhy(t, podsOf(t, ns, "stuck"), corev1.PodResizePending, corev1.PodReasonDeferred, "Node didn't have enough resource: cpu, requested: 500, used: 31900, capacity: 32000", 0)
	run(t, ns, 4)

	args, metrics, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(t, err)
	// The updater looks for a lease that nobody renews, as when the admission controller is down.
	args = append([]string{"run", "--kubeconfig=" + kubeconfig, "--vpa-object-namespace=" + ns, "--recommender-interval=1s", "--updater-interval=1s",
		"--status-lease-name=" + ns, "--admission-controller-status-lease-name=nobody", "--explain-address=" + address}, args...)
	one, err := harness.Start(program, metrics, filepath.Join(t.TempDir(), "log"), args, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, one.Stop())
		unregister(t)
	})
	require.NoError(t, one.WaitReady(t.Context()))
	require.NoError(t, cluster.Publish(t.Context(), system, "celvpa", inspect.PortName, address, map[string]string{inspect.ServiceLabel: "true"}))
	killed(t, ns, "oom")

	for question, ask := range map[string]struct {
		about string
		says  []string // parts of one finding
		also  func(r *explain.Report) bool
	}{
		"1 why 25m and 250Mi for an idle pod": {about: "idle", also: func(r *explain.Report) bool {
			return slices.ContainsFunc(r.Resources, func(a explain.Amounts) bool {
				n := len(a.Way)
				return a.Container == "app" && a.Resource == "cpu" && a.Target == "12m" && n > 0 && a.Way[n-1].Path() == "estimate/bounds/raise-to-minimum" &&
					slices.ContainsFunc(a.Usage, func(p answers.Percentile) bool { return p.Percent == "90" && p.Amount != "" })
			})
		}},
		"2 a new target and no eviction": {about: "within", says: []string{"Settled eligibility/within-recommended-range", "it is only", "it is 12h old and they differ from the target by 10% (now 20%)"}},
		"3 evictions are paused":         {about: "paused", says: []string{"Misconfigured admission-lease-expired", "nobody"}},
		"4 no target":                    {about: "gone", says: []string{"Misconfigured target-unusable", "Deployment " + ns + "/gone does not exist"}},
		"4 no pods":                      {about: "empty", says: []string{"Misconfigured no-pods", "app=empty"}},
		"4 no samples":                   {about: "unmeasured", says: []string{"Misconfigured no-samples", "sees 1 pod and no usage"}},
		"5 an OOM":                       {about: "oom", says: []string{"Info oom-counted container app", "with 1000Mi, which counts as a sample of 1200Mi (oom-bump/bump/raise)"}},
		"6 an absurd upper bound":        {about: "young", says: []string{"Info little-history container app", "the upper bound of cpu is", "estimate/bounds/widen-upper-bound", "history is 90 samples over 1h29m"}},
		"7 a limit above maxAllowed":     {about: "capped", says: []string{"Info limit-above-max-allowed container a", "maxAllowed memory 500Mi bounds the request only; a new pod would get the limit 1000Mi", "now 200Mi"}},
		"8 why it does not come down":    {about: "shrunk", says: []string{"target-falls-slowly container app", "if cpu usage stays at 400m, its target falls to"}},
		"9 too few replicas":             {about: "alone", says: []string{"Misconfigured eligibility/too-few-replicas", "The workload has 1 live pod, fewer than minReplicas (2, set by --min-replicas) → It has 2 live pods"}},
		"9 a budget that blocks":         {about: "paused", says: []string{"Misconfigured budget-blocks PodDisruptionBudget " + ns + "/paused", "it wants 2 of 2 pods healthy"}},
		"9 an HPA":                       {about: "alone", says: []string{"Misconfigured hpa-same-resource HorizontalPodAutoscaler " + ns + "/alone", "utilization of cpu"}},
		"10 a resize that waits":         {about: "stuck", says: []string{"Waiting resize/resize-under-way", "(Deferred,", "requested: 500, used: 31900, capacity: 32000", "5m have passed"}},
	} {
		t.Run(question, func(t *testing.T) {
			var last *explain.Report
			defer func() {
				if t.Failed() && last != nil {
					t.Logf("%+v", last.Resources)
					t.Log("verdict: ", last.Verdict.Text, "\n", tokens(last), "\nunknown: ", strings.Join(last.Unknown, "\n"))
				}
			}()
			explained(t, ns, system, ask.about, func(r *explain.Report) bool {
				last = r
				if ask.also != nil && !ask.also(r) {
					return false
				}
				return len(ask.says) == 0 || slices.ContainsFunc(strings.Split(tokens(r), "\n"), func(line string) bool {
					return !slices.ContainsFunc(ask.says, func(part string) bool { return !strings.Contains(line, part) })
				})
			})
			require.Empty(t, last.Unknown, "all processes answer")
			require.Len(t, last.Processes, 3)
		})
	}
	t.Run("the explained target is that of the status", func(t *testing.T) {
		r := explained(t, ns, system, "idle", func(r *explain.Report) bool { return len(r.Resources) > 1 })
		for _, c := range recommendedNow(t, ns, "idle").ContainerRecommendations {
			for _, a := range r.Resources {
				if a.Container == c.ContainerName && len(a.Way) > 0 {
					q := c.Target[corev1.ResourceName(a.Resource)]
					require.Equal(t, q.String(), a.Target)
				}
			}
		}
	})
	t.Run("what may not be read is said", func(t *testing.T) {
		role := metav1.ObjectMeta{Namespace: ns, Name: "reader"}
		create(t, &rbacv1.Role{ObjectMeta: role, Rules: []rbacv1.PolicyRule{{APIGroups: []string{vpav1.GroupVersion.Group}, Resources: []string{"verticalpodautoscalers"}, Verbs: []string{"get"}}}},
			&rbacv1.RoleBinding{ObjectMeta: role, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "reader"}}})
		out, err := exec.CommandContext(t.Context(), program, "explain", "within", "-n", ns, "--kubeconfig", kubeconfig, "--as", "reader", "--celvpa-namespace", system, "-o", "wide").CombinedOutput()
		require.NoError(t, err, string(out))
		for _, part := range []string{"VerticalPodAutoscaler " + ns + "/within, Deployment/within", "whether one blocks evictions: cannot read PodDisruptionBudgets of namespace " + ns + ": no permission to read them",
			"what happened lately", "whether the webhook is registered"} {
			require.Contains(t, string(out), part)
		}
	})
	t.Run("a pod, and nothing", func(t *testing.T) {
		pod := podOf(t, ns, "alone")
		r := explained(t, ns, system, "pod/"+pod.Name, func(r *explain.Report) bool { return len(r.Pods) == 1 })
		require.Equal(t, "eligibility/too-few-replicas", r.Pods[0].Rule)
		require.Equal(t, ns+"/alone", r.VPA)
		out, err := exec.CommandContext(t.Context(), program, "explain", "alon", "-n", ns, "--kubeconfig", kubeconfig).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "did you mean alone?")
	})
}

// scaledByCPU scales a Deployment by its utilization of CPU.
func scaledByCPU(t *testing.T, ns, name string) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	require.NoError(t, yaml.Unmarshal([]byte(`spec: {maxReplicas: 1, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: `+name+`},
		metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}`), h))
	h.Namespace, h.Name = ns, name
	return h
}

// recommendedNow is the recommendation in the status of a VPA.
func recommendedNow(t *testing.T, ns, name string) *vpav1.RecommendedPodResources {
	t.Helper()
	r := status(t, ns, name).Recommendation
	require.NotNil(t, r)
	return r
}
