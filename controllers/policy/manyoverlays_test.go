package policy

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/facts"
	rulesv1alpha1 "github.com/celvpa/celvpa/crds/rules/v1alpha1"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// heapInUse is the bytes of live objects.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestThousandsOfOverlays: as many as are allowed take less than 256 MiB, the others are refused
// and said so, and what comes or goes later does not compile them all again.
func TestThousandsOfOverlays(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles hundreds of overlays: make test-all")
	}
	s, objects, _ := clusterSource(t)
	const count = 2000
	for i := range count {
		*objects = append(*objects, marginOverlay(fmt.Sprintf("o%04d", i), 1, fmt.Sprintf("0.%04d", i+1), fmt.Sprintf("ns-%d", i)))
	}
	before := heapInUse()
	all := hang.Bytes(t, func() { s.Reload(t.Context()) })
	require.Less(t, heapInUse()-before, int64(256<<20))
	require.Less(t, all, uint64(4<<30))
	require.Len(t, s.Rules().Overlays(), maxOverlays)
	require.Len(t, s.Accepted(), count)
	require.NoError(t, s.Accepted()["o0499"].Err)
	require.EqualError(t, s.Accepted()["o0500"].Err, "500 RuleOverlays are in use, and that is the most there can be: let one overlay match several namespaces, or delete others")
	require.Equal(t, []string{"o0499"}, overlaysFor(s, "ns-499"))
	require.Empty(t, overlaysFor(s, "ns-500"))

	*objects = (*objects)[1:]
	one := hang.Bytes(t, func() { s.Reload(t.Context()) })
	require.Less(t, one, all/10, "those that stay are not compiled again")
	require.Len(t, s.Rules().Overlays(), maxOverlays, "the next takes the place of what is gone")
	require.NoError(t, s.Accepted()["o0500"].Err)
	require.Empty(t, overlaysFor(s, "ns-0"))
	require.Equal(t, []string{"o0500"}, overlaysFor(s, "ns-500"))
}

// TestManyOverlaysOfOneRuleSet: overlays of many teams that add to one rule set, and that one object
// could all match, are compiled alone, and nothing is kept of comparing each with each. 150 of them
// took 1 GiB, until the next change, and minutes.
func TestManyOverlaysOfOneRuleSet(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles hundreds of overlays: make test-all")
	}
	s, objects, _ := clusterSource(t)
	for i := range 100 {
		o := marginOverlay(fmt.Sprintf("team-%03d", i), 1, "0.1", "")
		o.Spec.Match = &rulesv1alpha1.RuleOverlayMatch{VPASelector: &metav1.LabelSelector{MatchLabels: map[string]string{"member-of-" + o.Name: "yes"}}}
		o.Spec.Change = []rulesv1alpha1.Change{{After: "container-caps", Stage: &rulesv1alpha1.Stage{Name: o.Name, Each: &apiextensionsv1.JSON{Raw: []byte(`["bound", "resource"]`)},
			Rules: []rulesv1alpha1.Rule{{Name: "seen", When: "resource in now", Note: "seen"}}}}}
		*objects = append(*objects, o)
	}
	before := heapInUse()
	built := hang.Bytes(t, func() { s.Reload(t.Context()) })
	require.Less(t, built, uint64(1<<30))
	require.Less(t, heapInUse()-before, int64(64<<20))
	require.Len(t, s.Rules().Overlays(), 100)
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
