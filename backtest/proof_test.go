package backtest

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/simulate/usagefile"
)

// randomWorld has workloads of several pods with OOMs, steps, gaps, pods that come and go, and
// disruption budgets, for a number of days.
func randomWorld(t testing.TB, seed uint64, days int) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	w.options.Points = 50
	modes := []string{"Recreate", "InPlaceOrRecreate", "Initial", "Off"}
	for i := range 3 {
		name := fmt.Sprintf("shop-%d", i)
		limits := []string{"{}", "{memory: 400Mi}", "{cpu: 1, memory: 600Mi}"}[r.IntN(3)]
		w.manifests = append(w.manifests, deployment(name, modes[r.IntN(len(modes))], "{cpu: 200m, memory: 256Mi}", limits))
		if r.IntN(2) == 0 {
			w.manifests = append(w.manifests, fmt.Sprintf(`
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %[1]s, namespace: web}
spec: {selector: {matchLabels: {app: %[1]s}}, maxUnavailable: %[2]d}`, name, r.IntN(2)))
		}
		for n := range 1 + r.IntN(3) {
			begin := time.Duration(r.IntN(6)) * time.Hour
			step := time.Duration(1+r.IntN(7)) * time.Minute
			level, at := 0.1+r.Float64(), time.Duration(r.IntN(days*24))*time.Hour
			w.usage(pod(name, n), begin, time.Duration(days)*day-time.Duration(r.IntN(24))*time.Hour, step,
				func(since time.Duration) float64 { return 0.05 + 0.1*r.Float64() + step01(since > at)*level },
				func(since time.Duration) float64 { return 1e8 + 1e8*r.Float64() + step01(since > at)*level*6e8 })
			if r.IntN(2) == 0 {
				w.add(usagefile.Series{Pod: pod(name, n), Container: "app", Kind: usagefile.OOM}, epoch.Add(begin+30*time.Hour).UnixNano(), 500<<20)
			}
		}
	}
	return w
}

func step01(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func text(t testing.TB, r *Report) string {
	out, err := json.Marshal(r)
	require.NoError(t, err)
	return string(out)
}

// TestWhatIsTakenOverFromCycleToCycleIsStillTrue compares with replays that assess every pod in
// every cycle.
func TestWhatIsTakenOverFromCycleToCycleIsStillTrue(t *testing.T) {
	actions, seeds := map[EventType]int{}, 6
	if testing.Short() {
		seeds = 1
	}
	for seed := range uint64(seeds) {
		quick, _ := randomWorld(t, seed, 3).runNoted(with(t, Shipped))
		w := randomWorld(t, seed, 3)
		w.options.thorough = true
		thorough, _ := w.runNoted(with(t, Shipped))
		require.Equal(t, text(t, thorough), text(t, quick), "seed %d", seed)
		for _, c := range of(t, quick, Shipped).Containers {
			for _, e := range c.Series.Events {
				actions[e.Type]++
			}
		}
	}
	if testing.Short() {
		return // one world has not all of them
	}
	for _, what := range []EventType{Evicted, Resized, OOMKill, Started, Ended} {
		require.NotZero(t, actions[what], "the worlds of this test have no event %s: %v", what, actions)
	}
}

// TestTheSameInputGivesTheSameBytes: neither the number of cores nor the order of replays shows.
func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	run := func(cores int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		report, notes := randomWorld(t, 3, 2).runNoted(with(t, Shipped), with(t, "wide", "estimate.marginFraction", "0.5"))
		return text(t, report) + strings.Join(notes, "\n")
	}
	one := run(1)
	require.Equal(t, one, run(4))
	require.Equal(t, one, run(4))
}

// TestNothingLooksAhead: usage that differs after a day leaves what happened before as it is.
func TestNothingLooksAhead(t *testing.T) {
	const cut = 36 * time.Hour
	run := func(after float64) *Report {
		r := rand.New(rand.NewPCG(7, 7))
		w := newWorld(t, deployment("shop", "Recreate", "{cpu: 200m, memory: 256Mi}", "{memory: 512Mi}"))
		w.options.Points = 72 // an hour each
		for n := range 2 {
			noise := func() float64 { return 0.5 + r.Float64() }
			factor := func(since time.Duration) float64 { return 1 + step01(since >= cut)*(after-1) }
			w.usage(pod("shop", n), 0, 3*day, 5*time.Minute,
				func(since time.Duration) float64 { return 0.3 * noise() * factor(since) },
				func(since time.Duration) float64 { return 4e8 * noise() * factor(since) })
		}
		return w.run(with(t, Shipped))
	}
	high, low := of(t, run(2), Shipped).Containers[0].Series, of(t, run(0.1), Shipped).Containers[0].Series
	before := func(s *Series) string {
		steps := int(cut / (time.Duration(s.StepSeconds) * time.Second))
		out := *s
		out.Events, out.Causes, out.Pods, out.Steps = nil, nil, s.Pods[:steps], 0
		for _, l := range []*Lines{&out.CPU, &out.Memory} {
			*l = Lines{l.Usage[:steps-1], l.UsageMax[:steps-1], l.Request[:steps-1], l.Limit[:steps-1], l.Target[:steps-1], l.Lower[:steps-1], l.Upper[:steps-1]}
		}
		for _, e := range s.Events {
			if e.At.Before(epoch.Add(cut)) {
				out.Events = append(out.Events, e)
			}
		}
		for _, c := range s.Causes {
			if c.At.Before(epoch.Add(cut)) {
				out.Causes = append(out.Causes, c)
			}
		}
		require.NotEmpty(t, out.Events)
		require.NotEmpty(t, out.Causes)
		text, err := json.Marshal(out)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, before(high), before(low))
	require.NotEqual(t, fmt.Sprint(high.CPU.Target), fmt.Sprint(low.CPU.Target), "the future of both is the same")
}

// TestALargerMarginNeverLowersSlackNorRaisesOOMs is metamorphic: nobody says what slack is right. It
// holds for usage whose distribution stays as it is. A trend makes OOMs depend on when pods happen to be
// evicted, which a margin shifts.
func TestALargerMarginNeverLowersSlackNorRaisesOOMs(t *testing.T) {
	margins := []string{"0", "0.15", "0.5"}
	ooms := 0
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t, deployment("shop", "Recreate", "{cpu: 200m, memory: 512Mi}", "{memory: 512Mi}"))
		w.usage(pod("shop", 0), 0, 6*day, 5*time.Minute,
			func(since time.Duration) float64 { return 0.2 + 0.3*r.Float64() },
			func(since time.Duration) float64 {
				return (2e8 + 5e7*r.Float64()) * (1 + step01(r.IntN(300) == 0)*r.Float64())
			})
		var candidates []Candidate
		for _, m := range margins {
			candidates = append(candidates, with(t, m, "estimate.marginFraction", m))
		}
		report := w.run(candidates...)
		for i := 1; i < len(margins); i++ {
			less, more := of(t, report, margins[i-1]).Fleet, of(t, report, margins[i]).Fleet
			require.GreaterOrEqual(t, more.CPU.SlackMean, less.CPU.SlackMean, "seed %d, margin %s", seed, margins[i])
			require.GreaterOrEqual(t, more.Memory.SlackMeanBytes, less.Memory.SlackMeanBytes, "seed %d, margin %s", seed, margins[i])
			require.LessOrEqual(t, more.OOMs, less.OOMs, "seed %d, margin %s", seed, margins[i])
			ooms += less.OOMs
		}
	}
	require.NotZero(t, ooms, "no world of this test has OOMs")
}

// TestAPolicyThatChangesNothingChangesNoMeasure: neither in mode Off, nor without a VPA.
func TestAPolicyThatChangesNothingChangesNoMeasure(t *testing.T) {
	w := newWorld(t, deployment("idle", "Off", "{cpu: 200m, memory: 256Mi}", "{memory: 512Mi}"))
	bare, _, _ := strings.Cut(deployment("bare", "Recreate", "{cpu: 1, memory: 1Gi}", "{}"), "---")
	w.manifests = append(w.manifests, bare)
	r := rand.New(rand.NewPCG(1, 1))
	for _, name := range []string{"idle", "bare"} {
		w.usage(pod(name, 0), 0, 2*day, 5*time.Minute, func(time.Duration) float64 { return r.Float64() }, func(time.Duration) float64 { return 6e8 * r.Float64() })
	}
	report := w.run(with(t, Shipped))
	for i, c := range of(t, report, Shipped).Containers {
		c.FirstRecommendationSeconds = nil
		require.Equal(t, of(t, report, Manifest).Containers[i], c)
	}
	require.NotZero(t, of(t, report, Manifest).Fleet.OOMs)
}

// TestMeasuresAgreeWithAnIndependentImplementation steps through the window second by second, by the
// definitions of docs/backtest.md.
func TestMeasuresAgreeWithAnIndependentImplementation(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	w := newWorld(t, deployment("shop", "Off", "{cpu: 500m, memory: 300M}", "{cpu: 800m, memory: 500M}"))
	type sample struct{ cpu, memory int64 }
	samples := map[int]sample{} // by second
	last := 0
	for at := 0; at < 6*3600; at += 60 + r.IntN(600) {
		if at > 7200 && at < 3*3600 {
			continue // a gap
		}
		s := sample{r.Int64N(1000), r.Int64N(6e8)}
		samples[at], last = s, at
		when := epoch.Add(time.Duration(at) * time.Second).UnixNano()
		w.add(usagefile.Series{Pod: pod("shop", 0), Container: "app", Kind: usagefile.CPU}, when, s.cpu)
		w.add(usagefile.Series{Pod: pod("shop", 0), Container: "app", Kind: usagefile.Memory}, when, s.memory)
	}
	report := w.run()
	gap := int64(gapSteps * float64(last) / float64(len(samples)-1) * 1e9)

	var slack, over, throttled, used, observed, memorySlack, memoryOver float64
	ooms, now, since := 0, sample{}, 0
	for at := range last {
		if s, fresh := samples[at]; fresh {
			now, since = s, at
			if s.memory > 5e8 {
				ooms++
			}
		}
		known := math.Min(1, float64(gap)/1e9-float64(at-since)) // of this second
		if known <= 0 {
			continue
		}
		observed += known
		used += known * float64(now.cpu) / 1000
		slack += known * math.Max(0, 0.5-float64(now.cpu)/1000)
		memorySlack += known * math.Max(0, 3e8-float64(now.memory))
		over += known * step01(now.cpu > 500)
		memoryOver += known * step01(now.memory > 3e8)
		throttled += known * math.Max(0, float64(now.cpu)/1000-0.8)
	}
	if samples[last].memory > 5e8 {
		ooms++
	}
	got, window := of(t, report, Manifest).Containers[0], float64(last)
	require.EqualValues(t, last, report.Window.Seconds)
	require.InEpsilon(t, slack/window, got.CPU.SlackMean, 1e-9)
	require.InEpsilon(t, slack/(0.5*observed), got.CPU.SlackShare, 1e-9)
	require.InEpsilon(t, over/observed, got.CPU.OverRequestShare, 1e-9)
	require.InEpsilon(t, throttled, got.CPU.ThrottledCoreSeconds, 1e-9)
	require.InEpsilon(t, 0.5*window/3600, got.CPU.RequestedCoreHours, 1e-9)
	require.InEpsilon(t, used/3600, got.CPU.UsedCoreHours, 1e-9)
	require.InEpsilon(t, memorySlack/window, got.Memory.SlackMeanBytes, 1e-9)
	require.InEpsilon(t, memoryOver/observed, got.Memory.OverRequestShare, 1e-9)
	require.InEpsilon(t, 3e8*window/3600/(1<<30), got.Memory.RequestedGiBHours, 1e-9)
	require.InEpsilon(t, observed, got.ObservedSeconds, 1e-9)
	require.NotZero(t, ooms)
	require.Equal(t, ooms, got.OOMs)
}
