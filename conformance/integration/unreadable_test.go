package integration

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celvpa/celvpa/conformance/harness"
	"github.com/celvpa/celvpa/crds"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// aStoredVPAThatCannotBeReadHarmsNoOther: upstream's CRDs let in quantities that no program reads. Lists with one of them could
// not be read, so that nothing started, nor stopped when asked to.
func aStoredVPAThatCannotBeReadHarmsNoOther(t *testing.T) {
	file, err := harness.UpstreamCRDs()
	require.NoError(t, err)
	withoutCelvpa(t)
	t.Cleanup(func() { require.NoError(t, cluster.InstallCRDs(context.Background(), false)) })
	deleteCRDs(t)
	require.NoError(t, cluster.ApplyFiles(t.Context(), file))
	for _, name := range []string{crds.VPA, crds.Checkpoint} {
		require.NoError(t, cluster.WaitEstablished(t.Context(), name))
	}
	ns := namespace(t, "it-unreadable")
	const quantity = "resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: 1e1.5}}]}"
	eventually(t, 20*time.Second, "VPAs of upstream's kind", func(ctx context.Context) (bool, error) {
		return cluster.Create(ctx, object(ns, "spec", quantity)) == nil, nil
	})
	inStatus := object(ns, "status", "")
	create(t, inStatus)
	require.NoError(t, unstructured.SetNestedSlice(inStatus.Object, []any{map[string]any{"containerName": "app", "target": map[string]any{"cpu": "1e1.5"}}},
		"status", "recommendation", "containerRecommendations"))
	require.NoError(t, cluster.Status().Update(t.Context(), inStatus))
	served := vpa(ns, "served", vpav1.UpdateModeRecreate)
	served.Spec.TargetRef.Name = "steady"
	create(t, steady(ns, "steady", 1), served)

	args, address, err := harness.LocalWebhookArgs("127.0.0.1")
	require.NoError(t, err)
	var mu sync.Mutex
	leftOut := map[string]string{}
	one, err := harness.Start(program, address, filepath.Join(t.TempDir(), "log"),
		append([]string{"run", "--kubeconfig=" + kubeconfig, "--register-webhook=false", "--recommender-interval=1s", "--updater-interval=1s",
			"--use-admission-controller-status=false", "--vpa-object-namespace=" + ns}, args...),
		func(line harness.LogLine) {
			mu.Lock()
			defer mu.Unlock()
			if line.Text("msg") == "the VPA is left out, because not all of it can be read" {
				leftOut[line.Text("vpa")] = line.Text("reason")
			}
		})
	require.NoError(t, err)
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			_ = one.Stop(5 * time.Second)
		}
	})
	require.NoError(t, one.WaitReady(t.Context(), 30*time.Second))
	recommended(t, ns, "served")
	eventually(t, 20*time.Second, "the updater to tell what it leaves out", func(context.Context) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return containsText(leftOut["spec"], `spec.resourcePolicy.containerPolicies[0].minAllowed.cpu cannot be read: it is "1e1.5": `), nil
	})
	stopped = true
	require.NoError(t, one.Stop(5*time.Second))
}
