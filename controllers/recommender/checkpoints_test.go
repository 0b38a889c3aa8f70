package recommender

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/controllers/target"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestCheckpointsThatAreWrittenDoNotStayInMemory: each kept its status, of 2 to 19 KB, until the next.
func TestCheckpointsThatAreWrittenDoNotStayInMemory(t *testing.T) {
	const workloads, pods, rounds = 10, 20, 20
	c := newCluster(t)
	for i := range workloads {
		name := fmt.Sprint("v", i)
		for _, o := range workload(name, "app") {
			require.NoError(t, c.api.Create(t.Context(), o))
		}
		for p := range pods {
			require.NoError(t, c.api.Create(t.Context(), podNamed(fmt.Sprint(name, "-", p), name, "app")))
		}
	}
	for round := range rounds {
		c.usage = nil
		for i := range workloads * pods {
			id, now := model.PodID{Namespace: "ns", Name: fmt.Sprint("v", i/pods, "-", i%pods)}, time.Now()
			c.usage = append(c.usage, model.Sample{Pod: id, Container: "app", Resource: model.CPU, Amount: int64(100 + (i*37+round*91)%900), At: now},
				model.Sample{Pod: id, Container: "app", Resource: model.Memory, Amount: int64(1+(i*7+round)%900) << 20, At: now})
		}
		c.RunOnce(t.Context())
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	c.usage = nil
	before := heap()
	for _, w := range c.Workloads() {
		require.Len(t, w.stored, 1)
		w.stored = nil
	}
	each := (before - heap()) / workloads
	runtime.KeepAlive(c)
	t.Logf("%d bytes each", each)
	require.Less(t, each, int64(1000))
}

// TestACheckpointStaysWhileTheTargetIsMissing: it was replaced by what the process had restored, and
// the next restart lost all usage since the one before.
func TestACheckpointStaysWhileTheTargetIsMissing(t *testing.T) {
	objects := workload("a", "app")
	c := newCluster(t, append(objects, checkpointOf("a", "app", 1000))...)
	for range 5 {
		c.cycle("a app")
	}
	require.Equal(t, map[string]int{"a-app": 1005}, c.checkpoints())
	for _, o := range objects[1:] {
		require.NoError(t, c.api.Delete(t.Context(), o))
	}
	c.cycle()
	c.cycle()
	require.Equal(t, map[string]int{"a-app": 1005}, c.checkpoints())

	restarted := c.Options
	restarted.Checkpoints = &Checkpoints{Timeout: time.Minute, Interval: time.Hour}
	c.Recommender = New(restarted)
	c.cycle()
	for _, o := range workload("a", "app")[1:] {
		require.NoError(t, c.api.Create(t.Context(), o))
	}
	c.cycle("a app")
	require.Equal(t, map[string]int{"a-app": 1006}, c.checkpoints())
}

// TestCheckpointsOfContainersThatEndedAreForgotten: names of containers may change all the time.
func TestCheckpointsOfContainersThatEndedAreForgotten(t *testing.T) {
	const later = 9 * 24 * time.Hour
	w := newWorld(t, policy.Options{})
	v := w.see()
	for _, container := range []string{"old", "new"} {
		w.cpu(w.pod("p", container), container, 100, 0)
		v.knows(container)
		v.counted(container, start, start)
	}
	w.cpu(w.pod("p", "new"), "new", 100, later)
	good := w.found
	w.found.Problem = &target.Unsupported{Message: "it does not exist"}
	w.see()
	w.CollectGarbage(start.Add(later))
	require.Len(t, v.stored, 2, "while the target is unknown, usage is only out of sight")

	w.found = good
	w.see()
	w.CollectGarbage(start.Add(later + garbageInterval))
	require.Contains(t, v.stored, "new")
	require.Contains(t, v.judged, "new")
	require.NotContains(t, v.stored, "old")
	require.NotContains(t, v.judged, "old")

	w.cpu(w.pod("p", "old"), "old", 100, later)
	require.True(t, v.outdated("old", start.Add(later)), "one that comes back is written")
}

// TestThousandsOfForgedCheckpointsDisturbNobody: a tenant writes checkpoints of its own VPA for containers that no pod has, and of VPAs
// that do not exist.
func TestThousandsOfForgedCheckpointsDisturbNobody(t *testing.T) {
	const forged = 1000
	objects := append(workload("a", "app"), checkpointOf("a", "app", 1000))
	for _, o := range append(workload("tenant", "app"), checkpointOf("tenant", "app", 1000)) {
		o.SetNamespace("tenant")
		objects = append(objects, o)
	}
	for i := range forged {
		for _, vpa := range []string{"tenant", fmt.Sprint("none-", i)} {
			checkpoint := checkpointOf(vpa, fmt.Sprint("c", i), 1000)
			checkpoint.Namespace = "tenant"
			objects = append(objects, checkpoint)
		}
	}
	c := newCluster(t, objects...)
	c.Checkpoints.Interval = time.Nanosecond
	c.cycle("a app")
	require.Len(t, c.vpa("a").Status.Recommendation.ContainerRecommendations, 1)
	v := &vpav1.VerticalPodAutoscaler{}
	require.NoError(t, c.api.Get(t.Context(), client.ObjectKey{Namespace: "tenant", Name: "tenant"}, v))
	require.Len(t, v.Status.Recommendation.ContainerRecommendations, 1, "of the container that there is")
	c.cycle("a app")
	require.Equal(t, map[string]int{"a-app": 1002, "tenant-app": 1000}, c.checkpoints(), "the others are deleted")
}
