package recommender

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestMissingTargetsDoNotMakeCyclesLong: with 15,000 such VPAs no cycle ended before the health check
// restarted the process.
func TestMissingTargetsDoNotMakeCyclesLong(t *testing.T) {
	const n = 100
	objects := workload("web", "app")
	for i := range n {
		v := workload(fmt.Sprint("x", i))[0].(*vpav1.VerticalPodAutoscaler)
		v.Spec.TargetRef.APIVersion, v.Spec.TargetRef.Kind = "v1", "ConfigMap"
		objects = append(objects, v)
	}
	c := newCluster(t, objects...)
	clk := testclock.NewFakeClock(time.Now())
	c.Clock, c.Targets.Clock = clk, clk
	asked := map[string]bool{}
	c.Targets.Resolver.Client = interceptor.NewClient(c.api, interceptor.Funcs{
		SubResourceGet: func(_ context.Context, _ client.Client, _ string, o, _ client.Object, _ ...client.SubResourceGetOption) error {
			clk.Step(time.Second) // a server that is slow, or a rate limit
			asked[o.GetName()] = true
			return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, o.GetName())
		},
	})
	for cycles := 1; cycles <= 3; cycles++ {
		begin := clk.Now()
		c.cycle("web app")
		require.LessOrEqual(t, clk.Since(begin), c.Interval/4)
		require.Len(t, asked, 15*cycles, "each cycle goes on where the last one stopped")
		require.Len(t, c.Workloads(), n+1)
	}
	require.Contains(t, c.statuses, "web", "a target in memory waits for nobody")
}
