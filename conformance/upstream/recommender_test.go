package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// imagined is how many stories of each kind run.
const imagined = 70

var storyKinds = map[string]storyKind{
	"one history of each container":  {one: true},
	"pods and VPAs come and go":      {},
	"labels change":                  {relabel: true, restart: true},
	"garbage is collected":           {collect: true},
	"restarts from checkpoints":      {collect: true, restart: true},
	"one history and restarts":       {one: true, collect: true, restart: true},
	"VPAs choose what is remembered": {perVPA: true, collect: true, restart: true},
}

// TestCelvpaRecommendsAsUpstreamDoes replays generated stories on both recommenders. Each mismatch
// is a bug in celvpa, or needs an entry in the table of deliberate differences.
func TestCelvpaRecommendsAsUpstreamDoes(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(storyKinds)) {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			replayMany(t, storyKinds[name], func(s story, begin time.Time) recommending { return newByCelvpa(s, begin) })
		})
	}
}

// TestTheStateRecommendsAsUpstreamDoes is the same for the status of VPAs.
func TestTheStateRecommendsAsUpstreamDoes(t *testing.T) {
	for name, kind := range map[string]storyKind{
		"plain": {noEnd: true, relabel: true}, "VPAs choose what is remembered": {noEnd: true, perVPA: true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			replayMany(t, kind, func(s story, begin time.Time) recommending { return newByState(s, begin) })
		})
	}
}

// replayMany replays stories of a kind, and shows the first mismatch of each kind with a story that
// is as short as possible.
func replayMany(t *testing.T, kind storyKind, celvpa func(story, time.Time) recommending) {
	defer newByUpstream(story{}, time.Time{}) // upstream's configuration is global
	counts, sorts := map[string]int{}, map[string]int{}
	for seed := range seeds(t, cases(imagined)) {
		s := imagine(seed, kind)
		out := replay(t, s, celvpa)
		for k, n := range out.Counts {
			counts[k] += n
		}
		if len(out.Mismatches) == 0 {
			continue
		}
		sort := out.Mismatches[0].Kind
		if sorts[sort]++; sorts[sort] > 1 {
			continue
		}
		small := shorten(s, func(s story) bool {
			m := replay(t, s, celvpa).Mismatches
			return len(m) > 0 && m[0].Kind == sort
		})
		t.Errorf("seed %d: %s", seed, explainStory(small, replay(t, small, celvpa)))
	}
	for sort, n := range sorts {
		t.Errorf("%d stories differ in %s", n, sort)
	}
	t.Log(countsText(counts))
}

func explainStory(s story, out replayed) string {
	var text strings.Builder
	text.WriteString(s.String())
	for _, m := range out.Mismatches {
		fmt.Fprintf(&text, "%s: %s\n", m.Kind, m.Text)
	}
	return text.String()
}

func countsText(counts map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s: %d", name, counts[name]))
	}
	return strings.Join(out, ", ")
}

// FuzzRecommender is the same test for any seed and kind.
func FuzzRecommender(f *testing.F) {
	names := slices.Sorted(maps.Keys(storyKinds))
	for i := range names {
		f.Add(uint64(imagined), i)
		f.Add(uint64(533), i)
	}
	f.Fuzz(func(t *testing.T, seed uint64, kind int) {
		if kind < 0 || kind >= len(names) {
			t.Skip("there is no such kind")
		}
		defer newByUpstream(story{}, time.Time{})
		s := imagine(seed, storyKinds[names[kind]])
		out := replayBoth(t, s)
		require.Empty(t, out.Mismatches, "%s", s)
	})
}
