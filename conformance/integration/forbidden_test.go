package integration

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// kubeconfigAs writes the lab's kubeconfig for a user without permissions.
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

// aProcessThatMayReadNothingStopsWhenAskedTo: its caches never sync, and it still stops on SIGTERM.
func aProcessThatMayReadNothingStopsWhenAskedTo(t *testing.T) {
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	c, err := harness.Start(program, address, filepath.Join(t.TempDir(), "log"),
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
	hang.Eventually(t, "its address", func(context.Context) (bool, error) { return status("/healthz") == http.StatusOK, nil })
	require.Equal(t, http.StatusInternalServerError, status("/readyz"))
	require.NoError(t, c.Stop())
}

// neverForbidden requires that the whole log has no forbidden request.
func neverForbidden(t *testing.T, lines []harness.LogLine) {
	t.Helper()
	for _, line := range lines {
		require.NotContains(t, line.Text("msg")+line.Text("err")+line.Text("error")+line.Text("reason"), "forbidden")
	}
}

// thePermissionsInTheDocsAreThoseItNeeds runs the recommender with the permissions of
// docs/recommender.md: they are enough, and all are used.
func thePermissionsInTheDocsAreThoseItNeeds(t *testing.T) {
	a := accountOfTheDocs(t, "recommender.md", "recommender-of-the-docs")
	ns := namespace(t, "it-permissions")
	v, custom := vpa(ns, "web", vpav1.UpdateModeOff), vpa(ns, "custom", vpav1.UpdateModeOff)
	v.Spec.Recommenders = []*vpav1.VerticalPodAutoscalerRecommenderSelector{{Name: ns}}
	custom.Spec.Recommenders = v.Spec.Recommenders
	create(t, steady(ns, "web", 1), v)
	a.asksForACustomKind(t, custom)
	flags := append(leading, "--kubeconfig="+a.kubeconfig(t), "--leader-elect-resource-name="+ns, "--leader-elect-resource-namespace="+ns, "--recommender-name="+ns)
	r := startRecommender(t, ns, append(flags, "--vpa-object-namespace=", "--checkpoints-gc-interval=1h")...)
	recommended(t, ns, "web")
	checkpoints := func(ctx context.Context) int {
		list := &vpav1.VerticalPodAutoscalerCheckpointList{}
		require.NoError(t, cluster.List(ctx, list, client.InNamespace(ns)))
		return len(list.Items)
	}
	hang.Eventually(t, "a checkpoint", func(ctx context.Context) (bool, error) { return checkpoints(ctx) > 0, nil })
	r.stop()
	neverForbidden(t, r.Lines())

	require.NoError(t, cluster.Delete(t.Context(), v))
	r = startRecommender(t, ns, flags...) // for this namespace only: others' checkpoints are not for this test to delete
	hang.Eventually(t, "the end of the checkpoint", func(ctx context.Context) (bool, error) { return checkpoints(ctx) == 0, nil })
	a.usesAllItMay(t, map[string]string{
		"patch events":                "an event about who leads that is repeated is counted up",
		"create events.events.k8s.io": "only what RuleOverlays in mode Audit would change is reported by events",
		"get verticalpodautoscalercheckpoints.autoscaling.k8s.io": "one that another process wrote meanwhile is read before it is replaced",
		"patch ruleoverlays.rules.celvpa.dev/status":              "there may be no RuleOverlay in this cluster, or another recommender has written its condition",
		"list *.external.metrics.k8s.io":                          "for --use-external-metrics: externalMetricsAreRecommendedFrom",
	})
	neverForbidden(t, r.Lines())
}

// aNamespaceWithoutPermissionStopsNoOther: the recommender may write statuses in one of two
// namespaces only.
func aNamespaceWithoutPermissionStopsNoOther(t *testing.T) {
	a := accountOfTheDocs(t, "recommender.md", "recommender-of-one-namespace")
	allowed, forbidden := namespace(t, "it-allowed"), namespace(t, "it-forbidden")
	writes := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: a.Role.Name + "-writes"}}
	a.Role.Rules = slices.DeleteFunc(a.Role.Rules, func(r rbacv1.PolicyRule) bool {
		if !slices.Contains(r.Resources, "verticalpodautoscalers/status") {
			return false
		}
		writes.Rules = append(writes.Rules, r)
		return true
	})
	require.Len(t, writes.Rules, 1)
	require.NoError(t, cluster.Update(t.Context(), a.Role))
	create(t, writes, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: allowed, Name: "writes"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: writes.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: harness.Audited, Name: a.Name}}})
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.Background(), writes)) })
	for _, ns := range []string{forbidden, allowed} {
		v := vpa(ns, "web", vpav1.UpdateModeOff)
		v.Spec.Recommenders = []*vpav1.VerticalPodAutoscalerRecommenderSelector{{Name: allowed}}
		create(t, steady(ns, "web", 1), v)
	}
	r := startRecommender(t, allowed, "--kubeconfig="+a.kubeconfig(t), "--recommender-name="+allowed, "--vpa-object-namespace=", "--checkpoints-gc-interval=1h")
	recommended(t, allowed, "web")
	hang.Eventually(t, "a line about the other namespace", func(context.Context) (bool, error) {
		return r.says("cannot write the status; retrying in each cycle", `cannot patch resource "verticalpodautoscalers/status" in API group "autoscaling.k8s.io" in the namespace "`+forbidden+`"`), nil
	})
	require.Zero(t, r.value("celvpa_recommender_panics_total"))
	r.stopped = true // its writes failed, as they had to
	require.NoError(t, r.Stop())
}

// TestThePermissionsOfAdmissionInTheDocsAreThoseItNeeds runs the admission controller with the
// permissions of docs/admission.md: they are enough, and all are used.
func TestThePermissionsOfAdmissionInTheDocsAreThoseItNeeds(t *testing.T) {
	a := accountOfTheDocs(t, "admission.md", "admission-of-the-docs")
	flags := []string{"--kubeconfig=" + a.kubeconfig(t), "--status-lease-update-interval=1s", "--status-lease-name=it-permissions"}
	ns := namespace(t, "it-admission")
	custom := vpa(ns, "custom", vpav1.UpdateModeInitial)
	a.asksForACustomKind(t, custom)
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.Background(), custom)) })
	r := rotating(t, flags...)
	load := createPods(t, ns)
	load.more(t, 20)
	require.NoError(t, load.end())
	require.Equal(t, load.counts().created, load.counts().patched, "all are patched")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "it-permissions"}}
	hang.Eventually(t, "the status lease", func(ctx context.Context) (bool, error) {
		err := cluster.Get(ctx, keyOf(lease), lease)
		return err == nil && lease.Spec.RenewTime != nil, client.IgnoreNotFound(err)
	})
	other := registering(t, flags...) // finds the registration of the first
	a.usesAllItMay(t, map[string]string{
		"create events.events.k8s.io": "only what RuleOverlays in mode Audit would change is reported by events",
	})
	for _, log := range []*harness.Log{r, other} {
		neverForbidden(t, log.Lines())
	}
}
