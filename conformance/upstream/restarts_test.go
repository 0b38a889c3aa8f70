package upstream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCheckpointsGoBackAndForth repeatedly restarts each recommender from the checkpoints of the
// other. Both must then have the same history, and the same as two of upstream's: celvpa's own field
// of checkpoints changes nothing for upstream.
func TestCheckpointsGoBackAndForth(t *testing.T) {
	defer newByUpstream(story{}, time.Time{})
	exchanges, withMore := 0, 0
	for seed := range seeds(t, cases(40)) {
		s := imagine(seed, storyKind{one: true, restart: true})
		last := 0
		for i := range s.Events {
			if e := &s.Events[i]; e.Do == doRestart || e.Do == doCPU && i-last > 150 {
				*e = happens{At: e.At, Do: doSwap}
				last = i
				exchanges++
			}
		}
		mixed := replayBoth(t, s)
		require.Empty(t, mixed.Mismatches, s)
		withMore += mixed.Counts[checkpointsWithMore]
		pure := replay(t, s, func(s story, begin time.Time) recommending { return newByUpstream(s, begin) })
		require.Empty(t, pure.Mismatches, s)
		compareViews(func(checkpointID) bool { return true }, pure.Last, mixed.Last, true, mixed.Counts, func(kind, format string, args ...any) {
			t.Errorf("seed %d: "+kind+": "+format, append([]any{seed}, args...)...)
		})
	}
	require.Greater(t, exchanges, cases(40))
	require.Greater(t, withMore, cases(40))
}

// TestCheckpointsAtTheEdge restores in both what upstream or its rounding may have written.
func TestCheckpointsAtTheEdge(t *testing.T) {
	defer newByUpstream(story{}, time.Time{})
	begin := time.Now().Truncate(time.Second)
	stamp := begin.Add(-time.Hour).UTC().Format(time.RFC3339)
	for name, histogram := range map[string]string{
		"the first bucket comes to less than the least weight (kubernetes/autoscaler#7726)": `{"referenceTimestamp": "` + stamp + `", "totalWeight": 0.5, "bucketWeights": {"0": 1, "50": 10000}}`,
		"the last bucket comes to less than the least weight":                               `{"referenceTimestamp": "` + stamp + `", "totalWeight": 0.5, "bucketWeights": {"50": 10000, "175": 1}}`,
		"all buckets come to less than the least weight":                                    `{"referenceTimestamp": "` + stamp + `", "totalWeight": 0.00005, "bucketWeights": {"50": 10000, "60": 1}}`,
		"weights of nothing":      `{"referenceTimestamp": "` + stamp + `", "totalWeight": 5, "bucketWeights": {"50": 0}}`,
		"a total without weights": `{"referenceTimestamp": "` + stamp + `", "totalWeight": 5}`,
		"nothing at all":          `{"referenceTimestamp": null}`,
		"a total of nothing":      `{"referenceTimestamp": "` + stamp + `", "totalWeight": 0, "bucketWeights": {"50": 10000}}`,
	} {
		t.Run(name, func(t *testing.T) {
			text := `{"version": "v3", "firstSampleStart": "` + stamp + `", "lastSampleStart": "` + stamp + `", "totalSamplesCount": 3,
				"cpuHistogram": ` + histogram + `, "memoryHistogram": ` + histogram + `}`
			from := map[checkpointID][]byte{{Namespace: "ns", VPA: "v", Container: "app"}: []byte(text)}
			upstream, celvpa := newByUpstream(story{}, begin), newByCelvpa(story{}, begin)
			for _, r := range []recommending{upstream, celvpa} {
				r.setVPA(happens{Do: doVPA, Name: "v", Selector: "app=a"})
				r.restart(from)
				r.setPod(happens{Do: doPod, Name: "p", Labels: map[string]string{"app": "a"}, Containers: []string{"app"}})
			}
			for _, sample := range []happens{{}, {Do: doCPU, Name: "p", Container: "app", Amount: 100}, {Do: doMemory, Name: "p", Container: "app", Amount: 1e9}} {
				if sample.Do != "" {
					require.Equal(t, upstream.add(sample), celvpa.add(sample))
				}
				compareViews(func(checkpointID) bool { return true }, upstream.look(), celvpa.look(), true, map[string]int{}, func(kind, format string, args ...any) {
					t.Errorf(kind+": "+format, args...)
				})
			}
		})
	}
}
