package recommender

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestAVPAThatComesBackHasItsHistory: VPAs go with their CRD, and come back with it, or when somebody applies them again. What
// their checkpoints hold is not replaced by the few samples since.
func TestAVPAThatComesBackHasItsHistory(t *testing.T) {
	leaves := func(c *cluster) { require.NoError(t, c.api.Delete(t.Context(), c.vpa("a"))) }
	comesBack := func(c *cluster, change func(*vpav1.VerticalPodAutoscaler)) {
		again := workload("a")[0].(*vpav1.VerticalPodAutoscaler)
		again.UID, again.CreationTimestamp = "again", metav1.NewTime(time.Now().Truncate(time.Second))
		change(again)
		require.NoError(t, c.api.Create(t.Context(), again))
	}
	asItWas := func(*vpav1.VerticalPodAutoscaler) {}
	t.Run("the same process", func(t *testing.T) {
		c := newCluster(t, append(workload("a", "app"), checkpointOf("a", "app", 1000))...)
		c.cycle("a app")
		leaves(c)
		c.cycle("a app")
		c.cycle("a app")
		require.Equal(t, map[string]int{"a-app": 1001}, c.checkpoints(), "nobody writes it meanwhile")
		comesBack(c, asItWas)
		c.cycle("a app")
		require.Equal(t, map[string]int{"a-app": 1004}, c.checkpoints(), "the samples of the meantime count, too")
	})
	t.Run("a process that started meanwhile", func(t *testing.T) {
		c := newCluster(t, append(workload("a", "app"), checkpointOf("a", "app", 1000))...)
		leaves(c)
		c.cycle("a app")
		comesBack(c, asItWas)
		c.cycle("a app")
		require.Equal(t, map[string]int{"a-app": 1002}, c.checkpoints())
	})
	t.Run("not after its checkpoint was deleted", func(t *testing.T) {
		c := newCluster(t, append(workload("a", "app"), checkpointOf("a", "app", 1000))...)
		c.cycle("a app")
		leaves(c)
		c.Checkpoints.Interval = time.Nanosecond
		c.cycle("a app")
		require.Empty(t, c.checkpoints())
		c.Checkpoints.Interval = time.Hour
		comesBack(c, asItWas)
		c.cycle("a app")
		require.Equal(t, map[string]int{"a-app": 3}, c.checkpoints())
	})
	t.Run("not with another target", func(t *testing.T) {
		c := newCluster(t, append(append(workload("a", "app"), checkpointOf("a", "app", 1000)), workload("b", "app")[1:]...)...)
		c.cycle("a app", "b app")
		leaves(c)
		c.cycle("a app", "b app")
		comesBack(c, func(v *vpav1.VerticalPodAutoscaler) { v.Spec.TargetRef.Name = "b" })
		c.cycle("a app", "b app")
		require.Equal(t, map[string]int{"a-app": 3}, c.checkpoints())
	})
}
