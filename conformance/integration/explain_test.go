package integration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/controllers/inspect"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/explain/ask"
)

// rolesOfExplanations are those of the chart, by name.
func rolesOfExplanations(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	out := map[string][]rbacv1.PolicyRule{}
	for _, name := range []string{"reviews", "explain", "explainer"} {
		text, err := os.ReadFile(filepath.Join(root, "deploy", "chart", "celvpa", "files", "rbac", name+".yaml"))
		require.NoError(t, err)
		var rules []rbacv1.PolicyRule
		require.NoError(t, yaml.UnmarshalStrict(text, &rules))
		require.NotEmpty(t, rules, name)
		out["celvpa-"+name] = rules
	}
	return out
}

// bound gives an account a role in a namespace, or everywhere if that is empty.
func bound(t *testing.T, name, namespace string, rules []rbacv1.PolicyRule, to *corev1.ServiceAccount) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: to.Namespace, Name: to.Name}}
	objects := []client.Object{&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}}
	if namespace != "" {
		objects = []client.Object{&rbacv1.Role{ObjectMeta: meta, Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}}
	}
	create(t, objects...)
	t.Cleanup(func() {
		for _, o := range objects {
			require.NoError(t, client.IgnoreNotFound(cluster.Delete(context.Background(), o)))
		}
	})
}

// tokenFor is a token of an account, for API servers or another audience.
func tokenFor(t *testing.T, account *corev1.ServiceAccount, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	require.NoError(t, cluster.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// TestExplanationsThroughTheAPIServer runs two recommenders, one of which leads, with the permissions that docs/recommender.md
// and the roles of the chart grant. API servers reach them through the address of a pod, and of a Service without pods.
func TestExplanationsThroughTheAPIServer(t *testing.T) {
	addresses := [2]string{}
	for i := range addresses {
		var err error
		addresses[i], err = harness.OutsideAddress()
		if errors.Is(err, harness.ErrNoOutsideAddress) {
			t.Skip(err)
		}
		require.NoError(t, err)
	}
	require.NotEqual(t, addresses[0], addresses[1])
	roles := rolesOfExplanations(t)
	a := accountOfTheDocs(t, "recommender.md", "explain")
	ns, system := namespace(t, "it-explain"), namespace(t, "it-explain-system")
	v := vpa(ns, "web", vpav1.UpdateModeOff)
	v.Spec.Recommenders = []*vpav1.VerticalPodAutoscalerRecommenderSelector{{Name: ns}}
	explain := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: inspect.ServiceAccount}}
	human := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "human"}}
	create(t, v, explain, human)
	bound(t, "it-explain-reviews", "", roles["celvpa-reviews"], &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: harness.Audited, Name: a.Name}})

	log := &harness.Log{}
	processes := [2]*harness.Celvpa{}
	for i := range processes {
		address, err := harness.FreeAddress()
		require.NoError(t, err)
		processes[i], err = harness.Start(program, address, filepath.Join(t.TempDir(), "log"), append(leading, "recommender", "--kubeconfig="+a.kubeconfig(t), "--address="+address,
			"--explain-address="+addresses[i], "--vpa-object-namespace="+ns, "--recommender-name="+ns, "--recommender-interval=1s",
			"--leader-elect-resource-namespace="+system, "--leader-elect-resource-name=it-explain"), log.Add)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, processes[i].Stop()) })
	}
	bound(t, "it-explain-leader", system, []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: harness.Audited, Name: a.Name}})
	for _, p := range processes {
		require.NoError(t, p.WaitReady(t.Context()))
	}

	config := rest.CopyConfig(cluster.Config)
	config.TLSClientConfig.CertData, config.TLSClientConfig.KeyData, config.TLSClientConfig.CertFile, config.TLSClientConfig.KeyFile = nil, nil, "", ""
	config.BearerToken = tokenFor(t, human)
	asks := func(o ask.Options, name string) *ask.Result {
		o.Config = config
		result, err := ask.VPA(t.Context(), o, ns, name)
		require.NoError(t, err)
		return result
	}
	in := ask.Options{Namespaces: []string{system}}
	says := func(name string, unknown ...string) {
		t.Helper()
		var got *ask.Result
		hang.Eventually(t, "an answer about "+name, func(context.Context) (bool, error) {
			got = asks(in, name)
			if len(got.Unknown) != len(unknown) {
				return false, nil
			}
			for i := range unknown {
				if !strings.Contains(got.Unknown[i], unknown[i]) {
					return false, nil
				}
			}
			return true, nil
		})
		require.Nil(t, got.Recommender)
	}

	// Each permission that is missing is named, one after the other.
	require.Contains(t, asks(ask.Options{}, "web").Unknown[0], "this user may not list Services in namespaces kube-system, celvpa-system: give celvpa's namespace by --celvpa-namespace")
	says("web", "this user may not list Services in namespace it-explain-system: give celvpa's namespace by --celvpa-namespace, and have Role celvpa-explainer bound to this user there")
	for i, address := range addresses {
		require.NoError(t, cluster.Publish(t.Context(), system, fmt.Sprint("recommender-", i), inspect.PortName, address, map[string]string{inspect.ServiceLabel: "true"}))
	}
	rules := roles["celvpa-explainer"]
	require.Len(t, rules, 3)
	bound(t, "explainer-lists", system, rules[:1], human)
	says("web", "this user may not create tokens of ServiceAccount it-explain-system/celvpa-explain: have Role celvpa-explainer bound to this user in that namespace")
	bound(t, "explainer-tokens", system, rules[2:], human)
	says("web", "Service it-explain-system/recommender-0, pod recommender-0: this user may not get pods/proxy", "Service it-explain-system/recommender-1, pod recommender-1: this user may not get pods/proxy in namespace it-explain-system: have Role celvpa-explainer bound to this user there")
	bound(t, "explainer-proxies", system, rules[1:2], human)
	refused := "system:serviceaccount:it-explain-system:celvpa-explain may not get verticalpodautoscalers/explain.autoscaling.k8s.io web in namespace it-explain: grant it to this user"
	says("web", refused, refused)
	bound(t, "it-explain-reader", "", roles["celvpa-explain"], explain)

	var got *ask.Result
	answered := func() {
		t.Helper()
		hang.Eventually(t, "the answer of the one that leads", func(context.Context) (bool, error) {
			got = asks(in, "web")
			return got.Recommender != nil && got.Recommender.Known, nil
		})
		require.Equal(t, "recommender", got.Recommender.Component)
		require.True(t, got.Recommender.Leads)
		require.Empty(t, got.Differences)
		require.Nil(t, got.Updater)
		require.Len(t, got.Unknown, 2, "%s", got.Unknown)
		require.Contains(t, got.Unknown[0], "updater: no Service with label celvpa.dev/explain=true leads to one")
		require.Contains(t, got.Unknown[1], "admission-controller: no Service")
	}
	answered()
	editor := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "editor"}}
	create(t, editor, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "editor"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: editor.Name}}})
	config.BearerToken = tokenFor(t, editor)
	answered()
	says("wbe", "there is no VerticalPodAutoscaler it-explain/wbe", "there is no VerticalPodAutoscaler it-explain/wbe")

	// Straight at the process: a token for API servers is refused there, and one for it by API servers.
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: hang.Limit}
	get := func(url, token string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := insecure.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(body)
	}
	url := "https://" + addresses[0] + inspect.Path(ns, "web")
	code, body := get(url, tokenFor(t, explain))
	require.Equal(t, http.StatusUnauthorized, code, body)
	require.Contains(t, body, "or it is not for audience explain.celvpa.dev")
	code, body = get(url, tokenFor(t, explain, inspect.Audience))
	require.Equal(t, http.StatusOK, code, body)
	code, body = get(config.Host+"/version", tokenFor(t, explain, inspect.Audience))
	require.Equal(t, http.StatusUnauthorized, code, body)

	// One process on its own, which then goes away.
	require.NoError(t, cluster.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "recommender-0"}}))
	require.NoError(t, processes[0].Stop())
	answered()
	require.NoError(t, processes[1].Stop())
	says("web", "Service it-explain-system/recommender-1, pod recommender-1: the API server does not reach it: ")
	neverForbidden(t, log.Lines())
}

// TestOneProcessExplainsAllItsParts: celvpa run, with rules of one digest.
func TestOneProcessExplainsAllItsParts(t *testing.T) {
	address, err := harness.OutsideAddress()
	if errors.Is(err, harness.ErrNoOutsideAddress) {
		t.Skip(err)
	}
	require.NoError(t, err)
	ns := namespace(t, "it-explain-run")
	v := vpa(ns, "web", vpav1.UpdateModeOff)
	v.Spec.Recommenders = []*vpav1.VerticalPodAutoscalerRecommenderSelector{{Name: ns}}
	explain := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: inspect.ServiceAccount}}
	create(t, v, explain)
	bound(t, "it-explain-run", ns, rolesOfExplanations(t)["celvpa-explain"], explain)
	args, health, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(t, err)
	c, err := harness.Start(program, health, filepath.Join(t.TempDir(), "log"), append(args, "run", "--kubeconfig="+kubeconfig, "--explain-address="+address,
		"--vpa-object-namespace="+ns, "--recommender-name="+ns, "--recommender-interval=1s", "--register-webhook=false", "--webhook-probe-interval=0",
		"--admission-controller-status-lease-namespace="+ns, "--status-lease-namespace="+ns), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	require.NoError(t, c.WaitReady(t.Context()))
	require.NoError(t, cluster.Publish(t.Context(), ns, "celvpa", inspect.PortName, address, map[string]string{inspect.ServiceLabel: "true"}))
	hang.Eventually(t, "the answer of all parts", func(ctx context.Context) (bool, error) {
		got, err := ask.VPA(ctx, ask.Options{Config: cluster.Config, Namespaces: []string{ns}}, ns, "web")
		if err != nil || len(got.Unknown) > 0 {
			return false, err
		}
		require.Len(t, got.Admission, 1)
		require.Empty(t, got.Differences)
		require.NotEmpty(t, got.Updater.Ignored, "mode Off")
		require.NotEmpty(t, got.Admission[0].Rules.Digest)
		require.Equal(t, got.Updater.Rules, got.Admission[0].Rules)
		return got.Recommender.Known && got.Recommender.Rules.Digest == got.Updater.Rules.Digest, nil
	})
}

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
		"4 no samples":                   {about: "unmeasured", says: []string{"Misconfigured no-samples", "sees 1 pod, but no usage"}},
		"5 an OOM":                       {about: "oom", says: []string{"Info oom-counted container app", "with 1000Mi, which counts as a sample of 1200Mi (oom-bump/bump/raise)"}},
		"6 an absurd upper bound":        {about: "young", says: []string{"Info little-history container app", "the upper bound of cpu is", "estimate/bounds/widen-upper-bound", "history is 90 samples over 1h29m"}},
		"7 a limit above maxAllowed":     {about: "capped", says: []string{"Info limit-above-max-allowed container a", "a new pod would get the memory limit 1000Mi", "now 200Mi"}},
		"8 why it does not come down":    {about: "shrunk", says: []string{"target-falls-slowly container app", "if cpu usage stays at 400m, its target falls to"}},
		"9 too few replicas":             {about: "alone", says: []string{"Misconfigured eligibility/too-few-replicas", "The workload has 1 live pod, fewer than minReplicas (2, set by --min-replicas) → It has 2 live pods"}},
		"9 a budget that blocks":         {about: "paused", says: []string{"Misconfigured budget-blocks PodDisruptionBudget " + ns + "/paused", "it requires 2 of 2 pods to be healthy"}},
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
