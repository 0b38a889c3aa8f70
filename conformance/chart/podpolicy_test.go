package chart

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// TestTheUpdatersAccountChangesLittleOfAPod: the permission to patch annotations of pods is one to change their image, too.
func TestTheUpdatersAccountChangesLittleOfAPod(t *testing.T) {
	needsLab(t)
	s := newShell(t)
	s.cleanUp(t)
	s.run(t, "helm install celvpa deploy/chart/celvpa -n celvpa-system --create-namespace --take-ownership --force-conflicts")
	updater, err := harness.ConnectWith(lab.Kubeconfig, func(c *rest.Config) { c.Impersonate.UserName = "system:serviceaccount:celvpa-system:celvpa-updater" })
	require.NoError(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", GenerateName: "restricted-", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"mine": "1", "vpaUpdates": "old"},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")}}}}
	require.NoError(t, cluster.Create(t.Context(), pod))
	t.Cleanup(func() { require.NoError(t, cluster.Delete(context.WithoutCancel(t.Context()), pod)) })
	patch := func(body string, options ...client.PatchOption) error {
		err := updater.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(body)), options...)
		if err != nil {
			require.True(t, apierrors.IsForbidden(err), err)
			require.ErrorContains(t, err, "the updater of celvpa may change the resources of a pod")
		}
		return err
	}
	hang.Eventually(t, "the policy to be in force", func(context.Context) (bool, error) {
		return patch(`{"metadata": {"annotations": {"new": "1"}}}`, client.DryRunAll) != nil, nil
	})
	for _, body := range []string{
		`{"spec": {"containers": [{"name": "web", "image": "registry.k8s.io/pause:3.9"}]}}`,
		`{"spec": {"activeDeadlineSeconds": 1}}`,
		`{"metadata": {"labels": {"app": null}}}`,
		`{"metadata": {"labels": {"new": "1"}}}`,
		`{"metadata": {"finalizers": ["example.com/mine"]}}`,
		`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "1"}]}}`,
		`{"metadata": {"annotations": {"mine": "2"}}}`,
		`{"metadata": {"annotations": {"mine": null}}}`,
		`{"metadata": {"annotations": {"new": "1", "vpaUpdates": "new"}}}`,
	} {
		require.Error(t, patch(body), body)
	}
	require.NoError(t, patch(`{"metadata": {"annotations": {"vpaUpdates": null, "vpaInPlaceUpdated": "true", "vpaCpuStartupBoost/web": "{}"}}}`))
	resize := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "10m"}}}]}}`))
	require.NoError(t, updater.SubResource("resize").Patch(t.Context(), pod.DeepCopy(), resize))
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	require.Equal(t, "10m", pod.Spec.Containers[0].Resources.Requests.Cpu().String())
	require.Equal(t, "true", pod.Annotations["vpaInPlaceUpdated"])
	require.Equal(t, "{}", pod.Annotations["vpaCpuStartupBoost/web"])
	require.Equal(t, "1", pod.Annotations["mine"])
	require.NotContains(t, pod.Annotations, "vpaUpdates")
	pod.Labels["new"] = "1"
	require.NoError(t, cluster.Update(t.Context(), pod), "others are not its concern")
}
