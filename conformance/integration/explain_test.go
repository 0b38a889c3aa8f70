package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/controllers/inspect"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/explain/ask"
)

// rolesOfExplanations are those that docs/operations.md prints, by name.
func rolesOfExplanations(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "## Explanations")
	require.True(t, found)
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	roles, err := harness.Decode([]byte(text))
	require.NoError(t, err)
	out := map[string][]rbacv1.PolicyRule{}
	for _, role := range roles {
		typed := &rbacv1.ClusterRole{} // a Role has the same fields
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, typed))
		out[role.GetName()] = typed.Rules
	}
	require.Len(t, out, 3)
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
// and docs/operations.md print. API servers reach them through the address of a pod, and of a Service without pods.
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
