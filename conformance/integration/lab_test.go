package integration

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// TestTheLabResizesPodsAtBothLevels: the API server accepts a resize of pod and container together,
// the node carries it out, and the API server refuses what no node can hold with cause
// NodeCapacity.
func TestTheLabResizesPodsAtBothLevels(t *testing.T) {
	ns := namespace(t, "lab-resize")
	stanza := func(cpu, memory string) corev1.ResourceRequirements {
		list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
		return corev1.ResourceRequirements{Requests: list, Limits: list}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}}
	podLevel := stanza("200m", "256Mi")
	pod.Spec.Resources = &podLevel
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10", Resources: stanza("100m", "128Mi")}}
	create(t, pod)
	running(t, ns, 1)

	resize := func(patch string) error {
		return cluster.SubResource("resize").Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	}
	require.NoError(t, resize(`{"spec":{"resources":{"requests":{"cpu":"400m","memory":"512Mi"},"limits":{"cpu":"400m","memory":"512Mi"}},
		"containers":[{"name":"app","resources":{"requests":{"cpu":"300m","memory":"384Mi"},"limits":{"cpu":"300m","memory":"384Mi"}}}]}}`))
	hang.Eventually(t, "the node's acknowledgement", func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		if err := cluster.Get(ctx, client.ObjectKeyFromObject(pod), &now); err != nil {
			return false, err
		}
		c := now.Status.ContainerStatuses[0].Resources
		return now.Status.Resources != nil && now.Status.Resources.Requests.Cpu().String() == "400m" &&
			c.Requests.Cpu().String() == "300m" && c.Limits.Memory().String() == "384Mi", nil
	})

	err := resize(`{"spec":{"resources":{"requests":{"cpu":"40"},"limits":{"cpu":"40"}},
		"containers":[{"name":"app","resources":{"requests":{"cpu":"40"},"limits":{"cpu":"40"}}}]}}`)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.True(t, apierrors.HasStatusCause(err, "NodeCapacity"), "%v", err)
}

// TestTwoLabsRunSideBySide: starting a running lab again starts nothing.
func TestTwoLabsRunSideBySide(t *testing.T) {
	var out bytes.Buffer
	other, err := harness.Up(t.Context(), labName()+"-2", &out)
	require.NoError(t, err, out.String())
	t.Cleanup(func() { require.NoError(t, other.Down(context.Background(), &out), out.String()) })
	require.NotEqual(t, kubeconfig, other.Kubeconfig)
	server, err := other.Pid(t.Context(), "kube-apiserver")
	require.NoError(t, err)
	again, err := harness.Up(t.Context(), labName()+"-2", &out)
	require.NoError(t, err, out.String())
	require.False(t, again.Ours, "the second up found it running")
	now, err := again.Pid(t.Context(), "kube-apiserver")
	require.NoError(t, err)
	require.Equal(t, server, now, "nothing is started again")
	here, err := harness.Connect(other.Kubeconfig)
	require.NoError(t, err)
	require.NotEqual(t, cluster.Config.Host, here.Config.Host)
}
