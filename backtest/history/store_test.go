package history

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/recommender/model"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

func seriesOf(pod string, kind usagefile.Kind) usagefile.Series {
	return usagefile.Series{Pod: model.PodID{Namespace: "web", Name: pod}, Container: "app", Kind: kind}
}

// TestAStoreGivesWhatItTook: in order of time, from memory or from a file, and whatever the numbers.
func TestAStoreGivesWhatItTook(t *testing.T) {
	for name, memory := range map[string]int{"in memory": DefaultMemory, "spilled": 1000} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			s := NewStore(memory, t.TempDir(), nil)
			want := map[string][]Point{}
			for range 5000 {
				pod := string("zyx"[r.IntN(3)])
				p := Point{At: r.Int64N(1e18), Amount: r.Int64()}
				want[pod] = append(want[pod], p)
				require.NoError(t, s.Add(seriesOf(pod, usagefile.Memory), p))
			}
			require.NoError(t, s.Add(seriesOf("edges", usagefile.CPU), Point{}, Point{math.MaxInt64, math.MaxInt64}, Point{1, math.MinInt64}))
			want["edges"] = []Point{{}, {math.MaxInt64, math.MaxInt64}, {1, math.MinInt64}}
			require.NoError(t, s.Seal())
			require.Empty(t, s.Notes())
			require.Equal(t, memory < DefaultMemory, s.spill != nil)
			spans := s.Spans()
			require.Len(t, spans, 4)
			for i, span := range spans {
				points := want[span.Pod.Name]
				slices.SortFunc(points, func(a, b Point) int { return compareTimes(a, b) })
				got, err := s.Read(i, nil)
				require.NoError(t, err)
				require.Equal(t, points, got)
				require.Equal(t, Span{seriesOf(span.Pod.Name, span.Kind), points[0].At, points[len(points)-1].At, len(points)}, span)
			}
			require.NoError(t, s.Close())
			require.NoError(t, s.Close())
		})
	}
}

func compareTimes(a, b Point) int {
	switch {
	case a.At < b.At:
		return -1
	case a.At > b.At:
		return 1
	}
	return 0
}

// TestOfPointsAtOneTimeTheLargestCounts, and a note says how many do not.
func TestOfPointsAtOneTimeTheLargestCounts(t *testing.T) {
	s := NewStore(DefaultMemory, "", nil)
	require.NoError(t, s.Add(seriesOf("a", usagefile.CPU), Point{2, 5}, Point{1, 7}, Point{2, 9}, Point{2, 3}))
	require.NoError(t, s.Add(seriesOf("b", usagefile.CPU), Point{1, 1}))
	require.NoError(t, s.Seal())
	got, err := s.Read(0, nil)
	require.NoError(t, err)
	require.Equal(t, []Point{{1, 7}, {2, 9}}, got)
	require.Equal(t, 2, s.Spans()[0].Points)
	require.Equal(t, []string{"points ignored, because their series has a larger one at the same time: 2, in 1 series"}, s.Notes())
}

// TestRegularUsageIsPackedTightly: otherwise a month of a cluster does not fit into memory.
func TestRegularUsageIsPackedTightly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	s := NewStore(DefaultMemory, "", nil)
	const n = 8640
	for i := range int64(n) {
		require.NoError(t, s.Add(seriesOf("a", usagefile.CPU), Point{i * 300e9, 200 + r.Int64N(100)}))
	}
	require.LessOrEqual(t, s.held, 3*n+10)
}

// TestAFullDiskEndsTheReading: the error says what to do.
func TestAFullDiskEndsTheReading(t *testing.T) {
	s := NewStore(10, "/nonexistent", nil)
	err := Files{Paths: []string{usagefile.Stdin}, Stdin: strings.NewReader(strings.Repeat("2026-01-01T00:00:00Z,web,p,app,cpu,1\n", 100))}.Read(context.Background(), s)
	require.ErrorContains(t, err, "making a temporary file for a history that exceeds memory: ")
	require.ErrorContains(t, err, "set TMPDIR to a folder with room")
}

// TestRowsThatCannotBeUsedAreNoted, and the rest is read.
func TestRowsThatCannotBeUsedAreNoted(t *testing.T) {
	s := NewStore(DefaultMemory, "", nil)
	err := Files{Paths: []string{usagefile.Stdin, "missing.csv"}, Stdin: strings.NewReader("2026-01-01T00:00:00Z,web,p,app,cpu,1\nnonsense\n2026-01-01T00:00:00Z,web,p,app,disk,1\n")}.Read(context.Background(), s)
	require.EqualError(t, err, "cannot read usage from missing.csv: no such file or directory")
	require.Len(t, s.Notes(), 2)
	require.Contains(t, s.Notes()[0], "standard input:2: ")
	require.NoError(t, s.Seal())
	require.Len(t, s.Spans(), 1)
}
