package integration

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// TestAWebhookThatAPIServersDoNotReachIsReported: with failure policy Ignore, pods are created as
// usual. The admission controller has the permissions of docs/admission.md.
func TestAWebhookThatAPIServersDoNotReachIsReported(t *testing.T) {
	withoutCelvpa(t)
	a := accountOfTheDocs(t, "admission.md", "probing")
	ns := namespace(t, "it-probing")
	t.Setenv("NAMESPACE", ns)
	front := newService(t)
	_, port, err := net.SplitHostPort(front.Addr().String())
	require.NoError(t, err)
	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(t, err)
	endpoint, nowhere := "", "127.0.0.1:1"
	for _, arg := range args {
		if own, ok := strings.CutPrefix(arg, "--port="); ok {
			endpoint = "127.0.0.1:" + own
		}
	}
	front.endpoint.Store(&endpoint)
	log := &harness.Log{}
	c, err := harness.Start(program, address, filepath.Join(t.TempDir(), "log"),
		append(append([]string{"admission-controller", "--kubeconfig=" + a.kubeconfig(t)}, args...), "--webhook-port="+port, "--webhook-probe-interval=500ms"), log.Add)
	require.NoError(t, err)
	t.Cleanup(func() {
		unregister(t)
		require.NoError(t, c.Stop())
	})
	require.NoError(t, c.WaitReady(t.Context()))
	const missing = "not finding out whether API servers reach the webhook: allow this process to create verticalpodautoscalers.autoscaling.k8s.io in this namespace, for dry runs"
	hang.Eventually(t, "that the permission is missing", func(context.Context) (bool, error) { return log.Count(missing) == 1, nil })

	metric := func(value string) {
		t.Helper()
		hang.Eventually(t, "celvpa_webhook_reachable "+value, func(ctx context.Context) (bool, error) {
			text, err := harness.Get(ctx, "http://"+address+"/metrics")
			return strings.Contains(text, "\ncelvpa_webhook_reachable "+value+"\n"), err
		})
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"autoscaling.k8s.io"}, Resources: []string{"verticalpodautoscalers"}, Verbs: []string{"create"}}}}
	create(t, role, &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: harness.Audited, Name: a.Name}}})
	metric("1")
	front.endpoint.Store(&nowhere)
	front.drop()
	metric("0")
	hang.Eventually(t, "a line in the log", func(context.Context) (bool, error) {
		return log.Says("the API server does not reach this webhook, so new pods do not get their recommendations"), nil
	})
	front.endpoint.Store(&endpoint)
	metric("1")
	require.Positive(t, log.Count("recovered"))
	_, refused := a.asked(t)
	require.Empty(t, refused, "not even once without the permission")
}
