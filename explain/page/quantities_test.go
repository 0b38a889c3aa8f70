package page

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesAreReadable(t *testing.T) {
	for text, want := range map[string]string{
		"978270031": " ≈ 932.9Mi", "1048576": " ≈ 1.0Mi", "1048575": "", "700Mi": "", "": "", "476m": "", "-5": "",
		"1099511627776": " ≈ 1024.0Gi", "9223372036854775807": " ≈ 8589934591.9Gi", "99999999999999999999": "",
	} {
		require.Equal(t, want, readable(text), text)
	}
}

func TestTicksAreRound(t *testing.T) {
	for _, c := range []struct {
		resource, most, want string
	}{
		{"cpu", "476m", "200m 400m"}, {"cpu", "3", "1 2 3"}, {"cpu", "3m", "1m 2m 3m"}, {"cpu", "900", "500"},
		{"memory", "978270031", "256Mi 512Mi 768Mi"}, {"memory", "2Gi", "1Gi 2Gi"}, {"memory", "0", ""}, {"cpu", "8E", ""}, {"cpu", "nonsense", ""},
	} {
		var labels []string
		for _, tick := range scaleOf(c.resource, []string{c.most}, nil).ticks() {
			require.Positive(t, tick.At)
			require.LessOrEqual(t, tick.At, 1.0)
			labels = append(labels, tick.Label)
		}
		require.Equal(t, c.want, strings.Join(labels, " "), c.most)
	}
}

func TestAFarUpperBoundDoesNotFlattenTheChart(t *testing.T) {
	s := scaleOf("cpu", []string{"400m", "100m"}, []string{"228956m"})
	at, past, ok := s.at("400m")
	require.True(t, ok)
	require.False(t, past)
	require.InDelta(t, 1/1.04, at, 0.001)
	_, past, _ = s.at("228956m")
	require.True(t, past)
	_, past, _ = scaleOf("cpu", []string{"400m"}, []string{"1100m"}).at("1100m")
	require.False(t, past)
	_, _, ok = s.at("nonsense")
	require.False(t, ok)
}
