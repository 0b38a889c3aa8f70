package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// histories are checkpoints of containers without live usage: by VPA, then by container.
func histories() map[string]map[string]vpav1.VerticalPodAutoscalerCheckpointStatus {
	type known = map[string]vpav1.VerticalPodAutoscalerCheckpointStatus
	always := func(n int64) func(int) int64 { return func(int) int64 { return n } }
	r := rand.New(rand.NewPCG(5, 18))
	wild := func(most int64) func(int) int64 { return func(int) int64 { return r.Int64N(r.Int64N(most) + 1) } }
	out := map[string]known{
		"days":    {"app": harness.Days(5, 300, 500<<20)},
		"minutes": {"app": harness.Remembered(7, time.Minute, always(1200), always(3<<30))},
		"once":    {"app": harness.Remembered(1, time.Minute, always(100), always(200<<20))},
		"idle":    {"app": harness.Remembered(90, time.Minute, always(0), always(0))},
		"large":   {"app": harness.Remembered(3*24*60, time.Minute, always(600_000), always(2<<40))},
		"sparse":  {"app": harness.Remembered(500, 10*time.Minute, always(700), always(900<<20))},
		"pair":    {"app": harness.Days(8, 900, 5<<30), "side": harness.Days(1, 3, 20<<20)},
	}
	for i := range 12 {
		out[fmt.Sprintf("wild-%d", i)] = known{"app": harness.Remembered(1+r.IntN(3000), time.Duration(1+r.IntN(240))*time.Second, wild(20_000), wild(64<<30))}
	}
	return out
}

// recommendations are the statuses of VPAs, as JSON by name.
func recommendations(t *testing.T, ns string, of map[string]map[string]vpav1.VerticalPodAutoscalerCheckpointStatus) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, containers := range of {
		targets(t, ns, name, len(containers))
		text, err := json.Marshal(status(t, ns, name).Recommendation)
		require.NoError(t, err)
		out[name] = string(text)
	}
	return out
}

// upstreamHandsOverToCelvpaAndTakesOverAgain: upstream's recommender, celvpa's twice and upstream's
// again serve the same VPAs with the same flags. VPA live has real usage, the others have only
// their checkpoints.
func upstreamHandsOverToCelvpaAndTakesOverAgain(t *testing.T) {
	upstream, err := harness.BuildUpstream(t.Context(), "recommender", os.Stdout)
	require.NoError(t, err)
	ns := namespace(t, "rec-handover")
	create(t, steady(ns, "live", 2), unused(ns, "one", "app"), unused(ns, "two", "app", "side"), vpa(ns, "live", vpav1.UpdateModeOff))
	checkpoints := 1 // of live
	known, stored := histories(), map[string]vpav1.VerticalPodAutoscalerCheckpointStatus{}
	for name, containers := range known {
		v := vpa(ns, name, vpav1.UpdateModeOff)
		v.Spec.TargetRef.Name = []string{"", "one", "two"}[len(containers)]
		create(t, v)
		for container, history := range containers {
			c := harness.Checkpoint(ns, name, container, history)
			create(t, c)
			stored[c.Name] = readCheckpoint(t, ns, c.Name)
			checkpoints++
		}
	}
	run(t, ns, 2)
	running(t, ns, 4)

	byUpstream := func(t *testing.T) (address string, stop func()) {
		address, err := harness.FreeAddress()
		require.NoError(t, err)
		one, err := harness.Launch(upstream, address, logOf(t, ns+"-upstream"), recommenderFlags(ns, address), nil)
		require.NoError(t, err)
		return address, func() { _ = one.Stop() } // it knows no stop but by signal
	}
	byCelvpa := func(t *testing.T) (address string, stop func()) {
		r := startRecommender(t, ns, upstreamsStart)
		return r.Address, func() {
			require.Equal(t, float64(checkpoints), r.value(`celvpa_recommender_checkpoints_loaded_total{result="loaded"}`))
			require.Zero(t, r.value(`celvpa_recommender_checkpoints_loaded_total{result="unreadable"}`))
			require.Zero(t, r.value(`celvpa_recommender_checkpoints_loaded_total{result="unused"}`))
			r.stop()
		}
	}
	var live, last vpav1.VerticalPodAutoscalerCheckpointStatus
	var said map[string]string
	var seen func() []string
	for i, turn := range []struct {
		name    string
		start   func(*testing.T) (string, func())
		sparing bool
	}{{"upstream", byUpstream, false}, {"celvpa", byCelvpa, true}, {"celvpa again", byCelvpa, true}, {"upstream again", byUpstream, false}} {
		ok := t.Run(turn.name, func(t *testing.T) {
			writtenAt := map[string]metav1.Time{}
			for name := range stored {
				writtenAt[name] = readCheckpoint(t, ns, name).LastUpdateTime
			}
			address, stop := turn.start(t)
			defer stop()
			if i == 0 {
				recommended(t, ns, "live")
				seen = targetsOf(t, ns, "live")
			}
			hang.Eventually(t, "history that goes on", func(ctx context.Context) (bool, error) {
				var c vpav1.VerticalPodAutoscalerCheckpoint
				err := cluster.Get(ctx, client.ObjectKey{Namespace: ns, Name: "live-app"}, &c)
				live = c.Status
				for name := range stored { // upstream may need some cycles for all
					if now := readCheckpoint(t, ns, name); !turn.sparing && now.LastUpdateTime.Equal(ptr.To(writtenAt[name])) {
						return false, nil
					}
				}
				return live.TotalSamplesCount > last.TotalSamplesCount && harness.Metric(address, cyclesOf) >= 3, client.IgnoreNotFound(err)
			})
			if i > 0 {
				require.Equal(t, last.FirstSampleStart, live.FirstSampleStart)
				require.False(t, live.LastSampleStart.Before(&last.LastSampleStart))
				require.Greater(t, live.CPUHistogram.TotalWeight, last.CPUHistogram.TotalWeight)
				require.Equal(t, usageIn(t, last).CPU.Percentile(0.9), usageIn(t, live).CPU.Percentile(0.9))
			}
			last = live

			for name, before := range stored {
				now := readCheckpoint(t, ns, name)
				rewritten := !now.LastUpdateTime.Equal(ptr.To(writtenAt[name]))
				require.Equal(t, !turn.sparing, rewritten, "upstream writes %s again in each cycle, celvpa not", name)
				now.LastUpdateTime = before.LastUpdateTime
				require.Equal(t, before, now, "without samples the history %s stays what it is", name)
			}
			now := recommendations(t, ns, known)
			if i > 0 {
				require.Equal(t, said, now, "from the same checkpoints both write the same targets and bounds")
			}
			said = now
			milli, bytes := asHistory(t, stored["days-app"])
			got := targets(t, ns, "days", 1)["app"]
			require.Greater(t, milli, int64(300), "far above the minimum")
			require.Equal(t, []int64{milli, bytes}, []int64{milliOf(got), bytesOf(got)})
		})
		require.True(t, ok)
		for name := range known { // what the next one says of them is its own
			var v vpav1.VerticalPodAutoscaler
			require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &v))
			v.Status = vpav1.VerticalPodAutoscalerStatus{}
			require.NoError(t, cluster.Status().Update(t.Context(), &v))
		}
	}
	want := steadyCPU.String() + " " + steadyMemory.String()
	for _, target := range seen() {
		require.Equal(t, want, target, "the recommendation falls back in no turn")
	}
}

// targetsOf records the targets of a VPA with one container from now on.
func targetsOf(t *testing.T, ns, name string) func() []string {
	t.Helper()
	watching, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme()})
	require.NoError(t, err)
	// It outlives the subtest that starts it.
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
