package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestEvictionsKeepAPodDisruptionBudget: none while it allows none, and then one after another.
func TestEvictionsKeepAPodDisruptionBudget(t *testing.T) {
	t.Parallel()
	ns := namespace(t, "budget")
	before := deploy(t, ns, "web", 2, "containers: [{resources: {requests: {cpu: 20m, memory: 20Mi}, limits: {cpu: 200m, memory: 40Mi}}}]")
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	require.NoError(t, cluster.Create(t.Context(), budget))
	watch(t, ns, "web", pinned("Recreate", "{cpu: 30m, memory: 30Mi}"))
	explained(t, ns, "web", "update/disruption-budget")
	for i := range before {
		undisturbed(t, &before[i], 0)
	}
	fewest := lowest(t, ns, "web")
	require.NoError(t, cluster.Patch(t.Context(), budget, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"minAvailable": 1}}`))))
	until(t, patience, "two new pods", func(ctx context.Context) (bool, string) {
		pods, err := podsOf(ctx, ns, "web")
		if err != nil {
			return false, err.Error()
		}
		changed := 0
		for i := range pods {
			if pods[i].UID != before[0].UID && pods[i].UID != before[1].UID && isReady(&pods[i]) {
				changed++
			}
		}
		return changed == 2 && len(pods) == 2, fmt.Sprintf("%d of %d", changed, len(pods))
	})
	for _, p := range running(t, ns, "web", 2) {
		kernelHas(t, &p, "app", 300, 60<<20)
	}
	require.Positive(t, fewest(), "one pod was ready all the time")
}

// lowest counts the ready pods of a Deployment again and again; the function that it returns ends that, and returns the lowest number.
func lowest(t *testing.T, ns, name string) func() int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan int)
	go func() {
		fewest := 1 << 30
		for {
			select {
			case <-ctx.Done():
				result <- fewest
				return
			case <-time.After(200 * time.Millisecond):
			}
			pods, err := podsOf(ctx, ns, name)
			if err != nil {
				continue
			}
			ready := 0
			for _, p := range pods {
				if isReady(&p) {
					ready++
				}
			}
			fewest = min(fewest, ready)
		}
	}()
	return func() int {
		cancel()
		return <-result
	}
}
