package model

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/celvpa/celvpa/controllers/facts"
)

// TestTheForecastIsWhatTheModelComesTo lets random usage of some pods go on as it is, sample by
// sample.
func TestTheForecastIsWhatTheModelComesTo(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := NewCluster(UnusedGrace)
			w := c.SetWorkload(WorkloadID{Namespace: "ns", Name: "v"}, facts.Order{}, "", labels.Everything())
			pods := 1 + r.IntN(3)
			for p := range pods {
				c.SetPod(PodID{"ns", fmt.Sprint(p)}, PodSpec{Containers: []string{"a"}, Active: p < 2}, day)
			}
			sample := func(p int, at time.Time, milli, bytes int64) {
				id := PodID{"ns", fmt.Sprint(p)}
				c.AddSample(Sample{Pod: id, Container: "a", Resource: CPU, Amount: milli, At: at}, at)
				c.AddSample(Sample{Pod: id, Container: "a", Resource: Memory, Amount: bytes, At: at}, at)
			}
			now := day
			for range 60 * (1 + r.IntN(72)) {
				now = now.Add(time.Minute)
				for p := range pods {
					sample(p, now, 100+r.Int64N(3000), (1+r.Int64N(4000))<<20)
				}
			}
			live := w.Live()["a"]
			f := NewForecast(w.View().Clone().Containers[0].Aggregate, live, now, time.Minute)
			require.True(t, f.HasCPU() && f.HasMemory())
			for n := 1; n <= 3*24*60; n++ {
				for _, l := range live {
					if l.Active {
						var p int
						_, _ = fmt.Sscan(l.Pod, &p)
						sample(p, f.At(n), l.CPU, l.Memory)
					}
				}
				if n > 2 && r.IntN(200) > 0 {
					continue
				}
				want, got := w.View().Containers[0], f.After(n)
				require.Equal(t, want.Samples, got.Samples)
				require.Equal(t, want.MemorySamples, got.MemorySamples)
				require.Equal(t, want.LastSample, got.LastSample)
				require.InEpsilon(t, want.CPU.total, got.CPU.total, 1e-9)
				require.InEpsilon(t, want.Memory.total, got.Memory.total, 1e-9, "after %d", n)
				for b := range want.CPU.buckets.count {
					require.InDelta(t, want.CPU.weight(b), got.CPU.weight(b), 1e-6)
				}
				for b := range want.Memory.buckets.count {
					require.InDelta(t, want.Memory.weight(b), got.Memory.weight(b), 1e-6)
				}
			}
		})
	}
}

// TestTheForecastLeavesThePresentAlone: both begin with the same histograms.
func TestTheForecastLeavesThePresentAlone(t *testing.T) {
	a := newAggregate(facts.DefaultWindow(), day)
	a.addCPU(100, day)
	f := NewForecast(a, []Live{{Active: true, CPU: 100, CPUAt: day}, {CPU: 7, CPUAt: day}}, day, time.Minute)
	require.Equal(t, 6, f.After(5).Samples)
	require.Equal(t, day.Add(5*time.Minute), f.After(5).LastSample)
	require.False(t, f.HasMemory())
	require.Equal(t, 1, a.Samples)
	require.InDelta(t, cpuSampleWeight*a.CPU.decay(day), a.CPU.total, 1e-12)
	require.Equal(t, a.CPU.total, f.After(0).CPU.total)
}
