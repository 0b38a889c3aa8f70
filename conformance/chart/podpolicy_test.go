package chart

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
)

// TestTheUpdatersAccountChangesLittleOfAPod: the permission to patch annotations of pods is one to change their image, too.
func TestTheUpdatersAccountChangesLittleOfAPod(t *testing.T) {
	needsLab(t)
	s := newShell(t)
	s.cleanUp(t)
	s.run(t, "helm install celvpa deploy/chart/celvpa -n celvpa-system --create-namespace --take-ownership --force-conflicts")
	s.run(t, "kubectl create namespace restricted; kubectl -n restricted run web --image=registry.k8s.io/pause:3.10 --labels=app=web --annotations=mine=1 --annotations=vpaUpdates=old")
	t.Cleanup(func() { s.run(t, "kubectl delete namespace restricted --wait=false") })
	patch := func(body, more string) error {
		out, err := s.try(t, "kubectl -n restricted patch pod web --as=system:serviceaccount:celvpa-system:celvpa-updater "+more+" -p '"+body+"'")
		require.True(t, err == nil || strings.Contains(out, "the updater of celvpa may change the resources of a pod"), out)
		return err
	}
	hang.Eventually(t, "the policy to be in force", func(context.Context) (bool, error) {
		return patch(`{"metadata": {"labels": {"new": "1"}}}`, "--dry-run=server") != nil, nil
	})
	for _, body := range []string{
		`{"spec": {"containers": [{"name": "web", "image": "registry.k8s.io/pause:3.9"}]}}`,
		`{"spec": {"activeDeadlineSeconds": 1}}`,
		`{"metadata": {"labels": {"app": null}}}`,
		`{"metadata": {"finalizers": ["example.com/mine"]}}`,
		`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "1"}]}}`,
		`{"metadata": {"annotations": {"mine": "2"}}}`,
		`{"metadata": {"annotations": {"mine": null}}}`,
		`{"metadata": {"annotations": {"new": "1", "vpaUpdates": "new"}}}`,
	} {
		require.Error(t, patch(body, ""), body)
	}
	require.NoError(t, patch(`{"metadata": {"annotations": {"vpaUpdates": null, "vpaInPlaceUpdated": "true", "vpaCpuStartupBoost/web": "{}"}}}`, ""))
	require.NoError(t, patch(`{"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "10m"}}}]}}`, "--subresource=resize"))
	require.Equal(t, `{"mine":"1","vpaCpuStartupBoost/web":"{}","vpaInPlaceUpdated":"true"} 10m`,
		s.run(t, "kubectl -n restricted get pod web -o jsonpath='{.metadata.annotations} {.spec.containers[0].resources.requests.cpu}'"))
	s.run(t, `kubectl -n restricted label pod web new=1`) // others are not its concern
}
