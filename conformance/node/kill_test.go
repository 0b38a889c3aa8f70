package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestANodeThatIsKilledComesBack with what was resized, and celvpa goes on: no pod is evicted, none is resized again, and the next
// change arrives. Everything stands on this node, celvpa too. Only a node of the lab's can be killed.
func TestANodeThatIsKilledComesBack(t *testing.T) {
	needsPods(t)
	if lab == nil {
		t.Skip("needs a node that can be killed: the virtual machine of make lab-up NODE=vm")
	}
	ns := namespace(t, "killed")
	pod := &deploy(t, ns, "web", 1, "containers: [{resources: {requests: {cpu: 50m, memory: 20Mi}, limits: {cpu: 100m, memory: 40Mi}}}]")[0]
	watch(t, ns, "web", pinned("InPlaceOrRecreate", "{cpu: 100m, memory: 30Mi}"))
	kernelHas(t, pod, "app", 200, 60<<20)

	began := time.Now()
	require.NoError(t, lab.KillNode(t.Context()))
	require.NoError(t, lab.StartNode(t.Context()))
	t.Logf("the node is ready again after %.0fs", time.Since(began).Seconds())
	until(t, patience, "celvpa to be ready again", func(ctx context.Context) (bool, string) {
		var list corev1.PodList
		if err := cluster.List(ctx, &list, client.InNamespace(system)); err != nil {
			return false, err.Error()
		}
		restarted := 0
		for _, p := range list.Items {
			if isReady(&p) && p.Status.ContainerStatuses[0].RestartCount > 0 {
				restarted++
			}
		}
		return restarted == 4 && len(list.Items) == 4, fmt.Sprintf("%d of %d pods", restarted, len(list.Items))
	})
	t.Logf("celvpa is ready again after %.0fs", time.Since(began).Seconds())
	running(t, ns, "web", 1)
	kernelHas(t, pod, "app", 200, 60<<20)
	undisturbed(t, pod, 1)

	change(t, ns, "web", pinned("InPlaceOrRecreate", "{cpu: 60m, memory: 25Mi}"))
	kernelHas(t, pod, "app", 120, 50<<20)
	undisturbed(t, pod, 1)
	t.Logf("the next resize has reached the kernel after %.0fs", time.Since(began).Seconds())
}
