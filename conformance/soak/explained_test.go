package main

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/harness"
)

// logErrors has a component log errors, and counts those that are unexplained.
func logErrors(e *errorLog, of string, lines ...harness.LogLine) (unexplained int) {
	for _, line := range lines {
		line["level"] = "error"
		e.heard(&component{name: of}, line)
	}
	found, _ := e.result()
	return len(found)
}

func TestAnErrorIsExplainedOnlyByAFaultOfItsComponent(t *testing.T) {
	lease := harness.LogLine{"msg": "cannot renew the status lease; the updater pauses evictions if this continues", "error": "Get …: connection refused"}
	log := newErrorLog(&faultLog{})
	require.Equal(t, 1, logErrors(log, admission, lease), "nothing is wrong")

	log = newErrorLog(&faultLog{})
	log.faults.begin(outage, updater)
	require.Equal(t, 1, logErrors(log, admission, lease), "something is wrong elsewhere")

	log = newErrorLog(&faultLog{})
	log.faults.begin(rulesBroken, "")
	require.Equal(t, 1, logErrors(log, admission, lease), "something else is wrong")

	log = newErrorLog(&faultLog{})
	log.faults.begin(outage, admission)()
	require.Zero(t, logErrors(log, admission, lease), "it was just wrong")
	_, explained := log.result()
	require.Equal(t, 1, explained)

	log.faults.list[0].from, log.faults.list[0].to = time.Now().Add(-time.Hour), time.Now().Add(-retries-time.Second)
	require.Equal(t, 1, logErrors(log, admission, lease), "it was wrong long ago")
}

func TestAPanicIsNeverExplained(t *testing.T) {
	log := newErrorLog(&faultLog{})
	for _, what := range append(slices.Clone(keepNews), unavailable...) {
		log.faults.begin(what, "")
	}
	require.Equal(t, 1, logErrors(log, updater, harness.LogLine{"msg": "panic; please report this", "error": "panic: nil map"}))
	require.Equal(t, 2, logErrors(log, updater, harness.LogLine{"msg": "cannot end the startup boost; retrying", "error": "the pod has no container"}), "only what requests without an answer say")
}

func TestErrorsThatDifferInNamesAreCountedTogether(t *testing.T) {
	log := newErrorLog(&faultLog{})
	require.Equal(t, 1, logErrors(log, recommender, harness.LogLine{"msg": "m", "error": `pod soak-1/w3-17 of "a" failed`}, harness.LogLine{"msg": "m", "error": `pod soak-2/w5-18 of "b" failed`}))
	found, _ := log.result()
	require.Equal(t, 2, found[0].count)
}

func TestInformationIsNoError(t *testing.T) {
	log := newErrorLog(&faultLog{})
	log.heard(&component{name: updater}, harness.LogLine{"level": "info", "msg": "resize refused or unanswered"})
	found, explained := log.result()
	require.Empty(t, found)
	require.Zero(t, explained)
}

func TestExplanationsAreRegularExpressionsWithAFault(t *testing.T) {
	for _, e := range explanations {
		_, err := regexp.Compile(e.message)
		require.NoError(t, err)
		_, err = regexp.Compile(e.err)
		require.NoError(t, err)
		require.NotEmpty(t, e.by, e.message)
		require.False(t, e.message == ".*" && e.err == "", "everything would be explained")
	}
}

func TestWhatAComponentMayNotKnowReachesBackToTheFault(t *testing.T) {
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	log := &faultLog{list: []*fault{
		{kind: watchesLate, on: updater, from: noon, to: noon.Add(5 * time.Second)},
		{kind: metricsGone, from: noon.Add(-time.Hour), to: never},
	}}
	require.Equal(t, noon.Add(-newsTake), log.known(updater, noon.Add(30*time.Second)))
	require.Equal(t, noon.Add(30*time.Second-newsTake), log.known(recommender, noon.Add(30*time.Second)))
	late := noon.Add(5*time.Second + newsReturnWithin)
	require.Equal(t, late.Add(-newsTake), log.known(updater, late), "the news have returned")
}

func TestALeadThatIsGivenUpAtTheEndIsNoError(t *testing.T) {
	log := newErrorLog(&faultLog{})
	lost := harness.LogLine{"level": "error", "msg": "error received after stop sequence was engaged", "error": "leader election lost"}
	log.heard(&component{name: recommender, ending: true}, lost)
	found, _ := log.result()
	require.Empty(t, found)
	log.heard(&component{name: recommender}, lost)
	found, _ = log.result()
	require.Len(t, found, 1, "nobody stopped it")
}

func TestWhatGoGivesUpWithIsACrash(t *testing.T) {
	const log = `{"level":"info","msg":"panic: not one"}` + "\n"
	require.Empty(t, ofRuntime.FindAllString(log+"estimate.yaml:23:51: much is not a number\ncelvpa: the rules cannot be used\n", -1), "a start that is refused says why")
	require.Equal(t, []string{"panic: runtime error: index out of range", "goroutine 7 [running]:"},
		ofRuntime.FindAllString(log+"panic: runtime error: index out of range\n\ngoroutine 7 [running]:\nmain.main()\n", -1))
}

func TestGrowth(t *testing.T) {
	heap := limit{"heap", "heap", 1 << 20, 4 << 20}
	for name, tt := range map[string]struct {
		mebibytes func(i int) float64
		samples   int
		flat      bool
		text      string
	}{
		"level":                     {func(int) float64 { return 20 }, 40, true, "heap: from 20.0 to 20.0"},
		"bursts":                    {func(i int) float64 { return 20 + float64(i%5/4*100) }, 40, true, "heap: from 20.0 to 20.0"},
		"a cache that fills":        {func(i int) float64 { return 20 + min(float64(i), 3) }, 40, true, "heap: from 23.0 to 23.0"},
		"a leak below the floor":    {func(i int) float64 { return 20 + float64(i)/15 }, 40, true, "heap: from 20.3 to 22.3"},
		"a leak":                    {func(i int) float64 { return 20 + float64(i)/5 }, 40, false, "heap: from 21.0 to 27.0"},
		"a tenth of a large heap":   {func(i int) float64 { return 200 + float64(i)/3 }, 40, true, "heap: from 201.7 to 211.7"},
		"fewer samples than enough": {func(int) float64 { return 20 }, enough - 1, false, "heap: no life was long enough to judge; run longer"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &component{samples: [][]sample{nil, {{age: time.Hour}}}}
			for i := range tt.samples + 10 { // of which the first ten are the warm-up
				c.samples[0] = append(c.samples[0], sample{time.Duration(i) * time.Second, map[string]float64{"heap": tt.mebibytes(max(i-10, 0)) * (1 << 20)}})
			}
			warm := c.warm(10 * time.Second)
			require.Len(t, warm, tt.samples)
			g := heap.judge(warm)
			require.Equal(t, tt.flat, g.flat())
			require.Equal(t, tt.text, g.String())
		})
	}
}
