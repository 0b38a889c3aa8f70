package integration

import (
	"context"
	"crypto/tls"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// TestSecureMetricsAreForThoseWhomTheAPIServerAllows runs a recommender with the permissions of
// docs/recommender.md and deploy/monitoring/secure-metrics-roles.yaml, and reads its metrics like Prometheus.
func TestSecureMetricsAreForThoseWhomTheAPIServerAllows(t *testing.T) {
	a := accountOfTheDocs(t, "recommender.md", "secure-metrics")
	ns := namespace(t, "it-secure-metrics")
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prometheus"}}
	create(t, reader)
	bind := map[string]rbacv1.Subject{
		"celvpa-metrics-auth":   {Kind: rbacv1.ServiceAccountKind, Namespace: harness.Audited, Name: a.Name},
		"celvpa-metrics-reader": {Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: reader.Name},
	}
	bound := func(role string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{bind[role]}}
	}
	root, err := harness.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "deploy", "monitoring", "secure-metrics-roles.yaml"))
	require.NoError(t, err)
	roles, err := harness.Decode(text)
	require.NoError(t, err)
	require.Len(t, roles, 2)
	for _, role := range roles {
		create(t, role)
		t.Cleanup(func() { require.NoError(t, cluster.Delete(context.Background(), role)) })
	}
	auth := bound("celvpa-metrics-auth")
	create(t, auth)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.Background(), auth)) })

	addresses := [2]string{}
	for i := range addresses {
		addresses[i], err = harness.FreeAddress()
		require.NoError(t, err)
	}
	log := &harness.Log{}
	c, err := harness.Start(program, addresses[0], filepath.Join(t.TempDir(), "log"), []string{"recommender", "--kubeconfig=" + a.kubeconfig(t), "--address=" + addresses[0],
		"--secure-metrics-address=" + addresses[1], "--vpa-object-namespace=" + ns, "--recommender-name=" + ns}, log.Add)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	require.NoError(t, c.WaitReady(t.Context()), "probes stay on --address")

	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: hang.Limit}
	get := func(url, token string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := insecure.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(body)
	}
	requires := func(code int, url, token, says string) {
		t.Helper()
		got, body := get(url, token)
		require.Equal(t, code, got, body)
		require.Contains(t, body, says)
	}
	token := &authenticationv1.TokenRequest{}
	require.NoError(t, cluster.SubResource("token").Create(t.Context(), reader, token))
	metrics := "https://" + addresses[1] + "/metrics"
	requires(http.StatusNotFound, "http://"+addresses[0]+"/metrics", "", "")
	requires(http.StatusOK, "http://"+addresses[0]+"/healthz", "", "OK")
	requires(http.StatusUnauthorized, metrics, "", "send a bearer token")
	requires(http.StatusUnauthorized, metrics, "guessed", "does not know this token")
	requires(http.StatusForbidden, metrics, token.Status.Token, "system:serviceaccount:"+ns+":prometheus may not get /metrics")
	reads := bound("celvpa-metrics-reader")
	create(t, reads)
	t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(cluster.Delete(context.Background(), reads))) })
	hang.Eventually(t, "the permission", func(context.Context) (bool, error) {
		code, body := get(metrics, token.Status.Token)
		return code == http.StatusOK && strings.Contains(body, "celvpa_rules_info"), nil
	})
	neverForbidden(t, log.Lines())
}
