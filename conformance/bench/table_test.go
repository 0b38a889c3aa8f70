package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	them = program{name: "upstream 1.8.1"}
	us   = program{name: celvpa, ours: true}
)

// measured is a round: so many seconds of a cycle, and bytes.
func measured(cycle, rss float64, steps ...string) []value {
	out := []value{{"cycle", seconds, cycle}}
	for _, step := range steps {
		out = append(out, value{"· " + step, seconds, cycle / 2})
	}
	return append(out, value{"RSS", mebibytes, rss})
}

func lines(t *testing.T, of *table) (out []string) {
	t.Helper()
	var text strings.Builder
	require.NoError(t, of.write(&text))
	for line := range strings.Lines(text.String()) {
		if words := strings.Fields(line); len(words) > 0 {
			out = append(out, strings.Join(words, " "))
		}
	}
	return out
}

func TestTableHoldsMediansSideBySide(t *testing.T) {
	of := newTable("a title", []program{them, us}, [][][]value{
		{measured(20, 90<<20, "LoadVPAs"), measured(22, 90<<20, "LoadVPAs"), measured(90, 100<<20, "LoadVPAs")},
		{measured(10, 30<<20, "LoadVPAs", "Sweep"), measured(12, 60<<20, "LoadVPAs", "Sweep")},
	})
	require.Equal(t, []string{
		"a title",
		"upstream 1.8.1 celvpa ratio target",
		"cycle 22.000 s 11.000 s 0.500",
		"· LoadVPAs 11.000 s 5.500 s 0.500",
		"· Sweep – 5.500 s",
		"RSS 90.0 MiB 45.0 MiB 0.500",
	}, lines(t, of))
}

func TestTableOfOneProgramHasNoRatio(t *testing.T) {
	of := newTable("alone", []program{us}, [][][]value{{measured(10, 1<<20)}})
	require.Equal(t, []string{"alone", "celvpa target", "cycle 10.000 s", "RSS 1.0 MiB"}, lines(t, of))
}

func TestMedianOfAnEvenNumberIsTheMeanOfTheMiddle(t *testing.T) {
	require.Zero(t, median(nil))
	require.InDelta(t, 2, median([]float64{9, 2, 1}), 0)
	require.InDelta(t, 2.5, median([]float64{9, 2, 3, 1}), 0)
}
