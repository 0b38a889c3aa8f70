package integration

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// kubeconfigAs is a file with the lab's kubeconfig for a user who is allowed nothing yet.
func kubeconfigAs(t *testing.T, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	require.NoError(t, err)
	for _, as := range config.AuthInfos {
		as.Impersonate, as.ImpersonateGroups = user, []string{"system:authenticated"}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	return file
}

// aProcessThatMayReadNothingStopsWhenAskedTo: its caches never fill, and what waits for them did not hear that it should end.
func aProcessThatMayReadNothingStopsWhenAskedTo(t *testing.T) {
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	one, err := harness.Start(program, address, filepath.Join(t.TempDir(), "log"),
		[]string{"recommender", "--kubeconfig=" + kubeconfigAs(t, "nobody"), "--address=" + address}, func(harness.LogLine) {})
	require.NoError(t, err)
	status := func(path string) int {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return 0
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	eventually(t, 20*time.Second, "its address", func(context.Context) (bool, error) { return status("/healthz") == http.StatusOK, nil })
	require.Equal(t, http.StatusInternalServerError, status("/readyz"))
	require.NoError(t, one.Stop(5*time.Second))
}

// allowedByTheDocs lets a user do what a page of the docs lists, and gives the kubeconfig for it.
func allowedByTheDocs(t *testing.T, pageName, user string) string {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", pageName))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```yaml\napiVersion: rbac.authorization.k8s.io/v1\n")
	require.True(t, found)
	text, _, _ := strings.Cut(rest, "```")
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict([]byte("apiVersion: rbac.authorization.k8s.io/v1\n"+text), role))
	role.Name = "it-" + user
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}
	create(t, role, binding)
	t.Cleanup(func() {
		require.NoError(t, cluster.Delete(context.Background(), binding))
		require.NoError(t, cluster.Delete(context.Background(), role))
	})
	return kubeconfigAs(t, user)
}

// neverForbidden looks through all that a process has logged.
func neverForbidden(t *testing.T, lines []harness.LogLine) {
	t.Helper()
	for _, line := range lines {
		require.NotContains(t, line.Text("msg")+line.Text("err")+line.Text("error")+line.Text("reason"), "forbidden")
	}
}

// thePermissionsInTheDocsAreEnough runs the recommender with those that docs/recommender.md lists.
func thePermissionsInTheDocsAreEnough(t *testing.T) {
	as := allowedByTheDocs(t, "recommender.md", "recommender-of-the-docs")
	ns := namespace(t, "it-permissions")
	v := vpa(ns, "web", vpav1.UpdateModeOff)
	v.Spec.Recommenders = []*vpav1.VerticalPodAutoscalerRecommenderSelector{{Name: ns}}
	create(t, steady(ns, "web", 1), v)
	r := startRecommender(t, ns, "--kubeconfig="+as, "--leader-elect", "--leader-elect-resource-name="+ns,
		"--leader-elect-resource-namespace="+ns, "--vpa-object-namespace=", "--recommender-name="+ns, "--checkpoints-gc-interval=1h")
	recommended(t, ns, "web")
	eventually(t, 60*time.Second, "a checkpoint", func(ctx context.Context) (bool, error) {
		list := &vpav1.VerticalPodAutoscalerCheckpointList{}
		err := cluster.List(ctx, list, client.InNamespace(ns))
		return len(list.Items) > 0, err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	neverForbidden(t, r.lines)
}

// TestThePermissionsOfAdmissionInTheDocsAreEnough runs the admission controller with those that docs/admission.md lists.
func TestThePermissionsOfAdmissionInTheDocsAreEnough(t *testing.T) {
	as := allowedByTheDocs(t, "admission.md", "admission-of-the-docs")
	r := rotating(t, "--kubeconfig="+as, "--status-lease-update-interval=1s", "--status-lease-name=it-permissions")
	load := createPods(t, namespace(t, "it-admission"))
	load.more(t, 20)
	require.NoError(t, load.end())
	require.Zero(t, load.created.Load()-load.patched.Load(), "all are patched")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "it-permissions"}}
	eventually(t, 20*time.Second, "the status lease", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, keyOf(lease), lease)
		return err == nil && lease.Spec.RenewTime != nil, client.IgnoreNotFound(err)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	neverForbidden(t, r.lines)
}
