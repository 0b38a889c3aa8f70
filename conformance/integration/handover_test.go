package integration

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// upstreamHandsOverToCelvpaAndTakesOverAgain: upstream's recommender, celvpa's twice and upstream's again serve the same two
// VPAs with the same flags. Of live real usage is known, of known only what is in its checkpoint.
func upstreamHandsOverToCelvpaAndTakesOverAgain(t *testing.T) {
	ns := namespace(t, "rec-handover")
	upstream, err := upstreamRecommender()
	require.NoError(t, err)
	create(t, steady(ns, "live", 2), unused(ns, "known", "app"), vpa(ns, "live", vpav1.UpdateModeOff), vpa(ns, "known", vpav1.UpdateModeOff))
	run(t, ns, 1)
	running(t, ns, 3)
	stored := checkpoint(ns, "known", "app", days(5, 300, 500<<20))
	create(t, stored)
	known := readCheckpoint(t, ns, stored.Name)
	milli, bytes := asHistory(t, known)
	require.Greater(t, milli, int64(300), "far above the minimum")

	byUpstream := func(t *testing.T) (address string, stop func()) {
		address, err := harness.FreeAddress()
		require.NoError(t, err)
		one, err := harness.Launch(upstream, address, logOf(t, ns+"-upstream"), recommenderFlags(ns, address), nil)
		require.NoError(t, err)
		return address, func() { _ = one.Stop(20 * time.Second) } // it knows no stop but by signal
	}
	byCelvpa := func(t *testing.T) (address string, stop func()) {
		r := startRecommender(t, ns)
		return r.Address, func() {
			require.Equal(t, 2.0, r.value(`celvpa_recommender_checkpoints_loaded_total{result="loaded"}`))
			require.Zero(t, r.value(`celvpa_recommender_checkpoints_loaded_total{result="unreadable"}`))
			require.Zero(t, r.value(`celvpa_recommender_checkpoints_loaded_total{result="unused"}`))
			r.stop()
		}
	}
	var live, last vpav1.VerticalPodAutoscalerCheckpointStatus
	var said string
	var seen func() []string
	for i, turn := range []struct {
		name  string
		start func(*testing.T) (string, func())
	}{{"upstream", byUpstream}, {"celvpa", byCelvpa}, {"celvpa again", byCelvpa}, {"upstream again", byUpstream}} {
		ok := t.Run(turn.name, func(t *testing.T) {
			address, stop := turn.start(t)
			defer stop()
			if i == 0 {
				recommended(t, ns, "live")
				seen = targetsOf(t, ns, "live")
			}
			targets(t, ns, "known", 1)
			eventually(t, 60*time.Second, "history that goes on", func(ctx context.Context) (bool, error) {
				var c vpav1.VerticalPodAutoscalerCheckpoint
				err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: "live-app"}, &c)
				live = c.Status
				return live.TotalSamplesCount > last.TotalSamplesCount && metricOf(address, cyclesOf) >= 3, client.IgnoreNotFound(err)
			})
			if i > 0 {
				require.Equal(t, last.FirstSampleStart, live.FirstSampleStart)
				require.False(t, live.LastSampleStart.Before(&last.LastSampleStart))
				require.Greater(t, live.CPUHistogram.TotalWeight, last.CPUHistogram.TotalWeight)
				require.Equal(t, usageIn(t, last).CPU.Percentile(0.9), usageIn(t, live).CPU.Percentile(0.9))
			}
			last = live

			now := readCheckpoint(t, ns, stored.Name)
			now.LastUpdateTime = known.LastUpdateTime
			require.Equal(t, known, now, "without samples the history stays what it is")
			rec := status(t, ns, "known").Recommendation
			require.Equal(t, milli, milliOf(rec.ContainerRecommendations[0].Target))
			require.Equal(t, bytes, bytesOf(rec.ContainerRecommendations[0].Target))
			text, err := json.Marshal(rec)
			require.NoError(t, err)
			if i > 0 {
				require.Equal(t, said, string(text), "from the same checkpoint both write the same target and bounds")
			}
			said = string(text)
		})
		require.True(t, ok)
		// What the next one says of known is its own.
		var v vpav1.VerticalPodAutoscaler
		require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "known"}, &v))
		v.Status = vpav1.VerticalPodAutoscalerStatus{}
		require.NoError(t, cluster.Status().Update(t.Context(), &v))
	}
	want := steadyCPU.String() + " " + steadyMemory.String()
	for _, one := range seen() {
		require.Equal(t, want, one, "the recommendation falls back in no turn")
	}
}

// targetsOf notes the targets of a VPA with one container, as they change from now on.
func targetsOf(t *testing.T, ns, name string) func() []string {
	t.Helper()
	watching, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme()})
	require.NoError(t, err)
	// It outlives the turn in which it begins.
	w, err := watching.Watch(context.Background(), &vpav1.VerticalPodAutoscalerList{}, client.InNamespace(ns))
	require.NoError(t, err)
	var out []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			v, ok := event.Object.(*vpav1.VerticalPodAutoscaler)
			if !ok || v.Name != name || event.Type == watch.Deleted {
				continue
			}
			text := "none"
			if r := v.Status.Recommendation; r != nil && len(r.ContainerRecommendations) == 1 {
				target := r.ContainerRecommendations[0].Target
				text = target.Cpu().String() + " " + target.Memory().String()
			}
			out = append(out, text)
		}
	}()
	return func() []string {
		w.Stop()
		<-done
		require.NotEmpty(t, out)
		return out
	}
}
