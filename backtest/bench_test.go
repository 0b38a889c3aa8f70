package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// office is a workload that is busy by day, with noise.
func office(seed int) (cores, bytes func(time.Duration) float64) {
	noise := rand.New(rand.NewPCG(1, uint64(seed)))
	busy := func(at time.Duration) float64 { return math.Max(0, math.Sin((at.Hours()-7)/24*2*math.Pi)) }
	return func(at time.Duration) float64 {
			return 0.05 + (0.2+float64(seed%7)/5)*busy(at)*math.Exp(0.2*noise.NormFloat64())
		},
		func(at time.Duration) float64 { return 2e8 + 1e8*float64(seed%5)*busy(at) + 1e7*noise.Float64() }
}

// BenchmarkReplay has a sample of each of a number of containers every five minutes for 30 days, in
// Deployments of one pod each. docs/backtest.md has the figures.
func BenchmarkReplay(b *testing.B) {
	defer Tune()()
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint("containers=", n), func(b *testing.B) {
			if n > 10 && testing.Short() {
				b.Skip("takes minutes; run without -short")
			}
			w := newWorld(b)
			for i := range n {
				name := fmt.Sprintf("shop-%d", i)
				w.manifests = append(w.manifests, deployment(name, "Recreate", "{cpu: 1, memory: 1Gi}", "{memory: 2Gi}"))
				cores, bytes := office(i)
				w.usage(pod(name, 0), 0, 30*day, 5*time.Minute, cores, bytes)
			}
			candidate := with(b, Shipped)
			b.ResetTimer()
			for b.Loop() {
				var before, after syscall.Rusage
				require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
				r := w.run(candidate)
				require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
				require.Len(b, of(b, r, Shipped).Containers, n)
				b.ReportMetric(time.Duration(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano()).Seconds(), "cpu-s/op")
				b.ReportMetric(float64(after.Maxrss)/1024, "MiB-rss")
			}
		})
	}
}
