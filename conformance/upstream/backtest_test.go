package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	celvpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/simulate"
	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// backtested is a Deployment in namespace ns of one container, with a memory limit. Its VPA changes no
// pods, so that the samples stay the same whatever is recommended.
const backtested = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: ns}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: app, resources: {requests: {memory: 300M}, limits: {memory: 700M}}}]}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: v, namespace: ns}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: a}
  updatePolicy: {updateMode: "Off"}
`

const backtestedRequest, backtestedLimit = 300_000_000, 700_000_000

// TestABacktestRecommendsWhatUpstreamWould replays usage of two pods for five days, OOMs included, and
// compares the recommendation of each minute with that of upstream's model, fed the same samples.
func TestABacktestRecommendsWhatUpstreamWould(t *testing.T) {
	defer newByUpstream(story{}, time.Time{})
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now().UTC()
		samples := backtestSamples(rand.New(rand.NewPCG(1, 1)))
		series := backtestSeries(t, begin, samples)
		u := newByUpstream(story{}, begin)
		u.setVPA(happens{Do: doVPA, Name: "v", Selector: "app=a"})
		for _, name := range []string{backtestPod(0), backtestPod(1)} {
			u.setPod(happens{Do: doPod, Name: name, Labels: map[string]string{"app": "a"}, Containers: []string{"app"}})
		}
		last, compared, ooms := "", 0, 0
		end := samples[len(samples)-1].At
		for now := time.Minute; now <= time.Duration(end); now += time.Minute {
			time.Sleep(time.Until(begin.Add(now)))
			var killed []happens
			for len(samples) > 0 && time.Duration(samples[0].At) <= now {
				h := samples[0]
				samples = samples[1:]
				if h.Do == doMemory && h.Amount > backtestedLimit {
					oom := h
					oom.Do, oom.Amount, h.Amount = doOOM, backtestedRequest, backtestedLimit
					killed = append(killed, oom)
				}
				h.Later, h.At = h.At-span(now), span(now)
				require.True(t, u.add(h), "%s", h)
			}
			for _, h := range killed { // OOMs count after the samples of a cycle
				h.Later, h.At = h.At-span(now), span(now)
				require.True(t, u.add(h), "%s", h)
				ooms++
			}
			u.collect()
			recommended := fmt.Sprint(u.look()["ns/v"].Recommended)
			if written, changed := series[begin.Add(now)]; changed {
				last = written
			}
			require.Equal(t, recommended, last, "after %s", now)
			compared++
		}
		require.Equal(t, int(time.Duration(end)/time.Minute), compared)
		require.Greater(t, len(series), 1000)
		require.NotZero(t, ooms)
		t.Logf("%d recommendations compared, of which %d were new; %d OOMs", compared, len(series), ooms)
	})
}

func backtestPod(n int) string { return "a-7d9f8b6c5d-" + strings.Repeat(string("bc"[n]), 5) }

// backtestSamples are of two pods, at times of their own, for five days, in the order in which a
// recommender gets them.
func backtestSamples(r *rand.Rand) (out []happens) {
	for at := time.Duration(0); at <= 5*24*time.Hour; at += 5 * time.Minute {
		for n := range 2 {
			h := happens{At: span(at + time.Duration(n)*7*time.Second), Name: backtestPod(n), Container: "app"}
			h.Do, h.Amount = doCPU, r.Int64N(2000)
			out = append(out, h)
			h.Do, h.Amount = doMemory, 200_000_000+r.Int64N(400_000_000)
			if r.IntN(200) == 0 {
				h.Amount += 400_000_000
			}
			out = append(out, h)
		}
	}
	return out
}

// backtestSeries are the recommendations that a backtest writes, by time.
func backtestSeries(t *testing.T, begin time.Time, samples []happens) map[time.Time]string {
	store := history.NewStore(history.DefaultMemory, t.TempDir(), nil)
	defer store.Close()
	for _, h := range samples {
		of := usagefile.Series{Pod: model.PodID{Namespace: "ns", Name: h.Name}, Container: h.Container, Kind: usagefile.CPU}
		if h.Do == doMemory {
			of.Kind = usagefile.Memory
		}
		require.NoError(t, store.Add(of, history.Point{At: begin.Add(time.Duration(h.At)).UnixNano(), Amount: h.Amount}))
	}
	require.NoError(t, store.Seal())
	book, err := shippedRules(gates{})
	require.NoError(t, err)
	set, err := manifests.Read([]string{manifests.Stdin}, strings.NewReader(backtested))
	require.NoError(t, err)
	cluster, err := simulate.Load(set, book, simulate.At(begin))
	require.NoError(t, err)
	out := map[time.Time]string{}
	_, notes, err := backtest.Run(context.Background(), cluster, store,
		[]backtest.Candidate{{Name: backtest.Upstream, Book: book}},
		backtest.Options{Interval: backtest.UpstreamInterval, Recommended: func(_ string, at time.Time, v *celvpav1.VerticalPodAutoscaler) {
			var list []recommended
			for _, c := range v.Status.Recommendation.ContainerRecommendations {
				list = append(list, recommended{c.ContainerName, c.Target, c.LowerBound, c.UpperBound, c.UncappedTarget})
			}
			out[at] = fmt.Sprint(list)
		}})
	require.NoError(t, err)
	require.Empty(t, notes)
	return out
}
