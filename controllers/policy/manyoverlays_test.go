package policy

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestThousandsOfOverlays: as many as are allowed take less than 256 MiB, the others are refused
// and said so, and what comes or goes later does not compile them all again.
func TestThousandsOfOverlays(t *testing.T) {
	s, objects, _ := clusterSource(t)
	const count = 2000
	for i := range count {
		*objects = append(*objects, marginOverlay(fmt.Sprintf("o%04d", i), 1, fmt.Sprintf("0.%04d", i+1), fmt.Sprintf("ns-%d", i)))
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, start := heap(), time.Now()
	s.Reload(t.Context())
	took := time.Since(start)
	require.Less(t, heap()-before, uint64(256<<20))
	require.Less(t, took, 3*time.Minute)
	require.Len(t, s.Rules().Overlays(), maxOverlays)
	require.Len(t, s.Accepted(), count)
	require.NoError(t, s.Accepted()["o0499"].Err)
	require.EqualError(t, s.Accepted()["o0500"].Err, "500 RuleOverlays are in use, and that is the most there can be: let one overlay match several namespaces, or delete others")
	require.Equal(t, []string{"o0499"}, overlaysFor(s, "ns-499"))
	require.Empty(t, overlaysFor(s, "ns-500"))

	*objects = (*objects)[1:]
	start = time.Now()
	s.Reload(t.Context())
	require.Less(t, time.Since(start), took/10, "those that stay are not compiled again")
	require.Len(t, s.Rules().Overlays(), maxOverlays, "the next takes the place of what is gone")
	require.NoError(t, s.Accepted()["o0500"].Err)
	require.Empty(t, overlaysFor(s, "ns-0"))
	require.Equal(t, []string{"o0500"}, overlaysFor(s, "ns-500"))
}

// TestAnOverlayDeletedWhileACycleRuns: what was chosen for an object goes on as it began.
func TestAnOverlayDeletedWhileACycleRuns(t *testing.T) {
	s, objects, _ := clusterSource(t)
	*objects = []rulesv1alpha1.RuleOverlay{marginOverlay("more", 1, "0.3", "payments"), marginOverlay("other", 1, "0.4", "elsewhere")}
	s.Reload(t.Context())
	vpa := &vpav1.VerticalPodAutoscaler{}
	vpa.Namespace = "payments"
	chosen := For(s.Rules(), vpa)
	require.Equal(t, []string{"more"}, chosen.Plan.Overlays())

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // cycles, all the while
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				For(s.Rules(), vpa).Plan.Digest()
			}
		}
	}()
	digest := chosen.Plan.Digest()
	for range 20 {
		*objects = (*objects)[1:]
		s.Reload(t.Context())
		require.Empty(t, overlaysFor(s, "payments"))
		require.Equal(t, []string{"other"}, overlaysFor(s, "elsewhere"), "nobody else loses anything")
		*objects = append([]rulesv1alpha1.RuleOverlay{marginOverlay("more", 1, "0.3", "payments")}, *objects...)
		s.Reload(t.Context())
		require.Equal(t, digest, For(s.Rules(), vpa).Plan.Digest(), "the same overlay again is the same policy")
	}
	close(stop)
	<-stopped
	require.Equal(t, digest, chosen.Plan.Digest())
	require.Equal(t, []string{"more"}, chosen.Plan.Overlays())
	require.NotEmpty(t, chosen.Plan.RuleSets(facts.ContainerEstimate))
}
