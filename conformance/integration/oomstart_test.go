package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// oomsOfBeforeTheFirstCycleCount: OOM kills while no recommender runs, about the time of the first
// cycle of a process, which is its start, and between two leaders. There is no live usage, so a memory target proves an OOM.
func oomsOfBeforeTheFirstCycleCount(t *testing.T) {
	ns := namespace(t, "rec-oom")
	names := []string{"down", "first", "gap", "well"}
	for _, name := range names {
		create(t, unused(ns, name, "app"), vpa(ns, name, vpav1.UpdateModeOff))
	}
	run(t, ns, len(names))
	elect := append(leading, "--recommender-interval=5s", "--leader-elect-resource-name=rec-oom", "--leader-elect-resource-namespace="+ns)
	bumped := func(name string) {
		t.Helper()
		hang.Eventually(t, "the OOM of "+name+" to count", func(ctx context.Context) (bool, error) {
			var v vpav1.VerticalPodAutoscaler
			if err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &v); err != nil || v.Status.Recommendation == nil {
				return false, err
			}
			list := v.Status.Recommendation.ContainerRecommendations
			return len(list) == 1 && bytesOf(list[0].Target) == targetFor(1200<<20) && len(list[0].Target) == 1, nil
		})
	}
	killed(t, ns, "down")
	leads := startRecommender(t, ns, elect...)
	killed(t, ns, "first")
	bumped("down")
	bumped("first")

	standsBy := startRecommender(t, ns, elect...)
	require.Zero(t, standsBy.value(cyclesOf))
	leads.stop()
	killed(t, ns, "gap")
	bumped("gap")
	nothingKnown(t, ns, "well", "app")
	for _, name := range names[:3] {
		bumped(name)
	}
	require.Positive(t, standsBy.value(cyclesOf))
}
