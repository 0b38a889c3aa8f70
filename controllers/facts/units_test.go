package facts

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Amounts that are too large were 0 or negative.
func TestAmountsAreHeldAtTheEndsOfInt64(t *testing.T) {
	for text, want := range map[string]struct{ milli, bytes int64 }{
		"0":                        {0, 0},
		"0e400":                    {0, 0},
		"0.1m":                     {1, 1},
		"250m":                     {250, 1},
		"-1500m":                   {-1500, -2},
		"8Gi":                      {8589934592000, 8589934592},
		"100G":                     {100000000000000, 100000000000},
		"8999999999999999":         {8999999999999999000, 8999999999999999},
		"9223372036854776":         {math.MaxInt64, 9223372036854776},
		"-9223372036854776":        {math.MinInt64, -9223372036854776},
		"9223372036854775807":      {math.MaxInt64, math.MaxInt64},
		"-9223372036854775808":     {math.MinInt64, math.MinInt64},
		"1e20":                     {math.MaxInt64, math.MaxInt64},
		"-1e30":                    {math.MinInt64, math.MinInt64},
		"1e400":                    {math.MaxInt64, math.MaxInt64},
		"123456789012345678901.5k": {math.MaxInt64, math.MaxInt64},
	} {
		t.Run(text, func(t *testing.T) {
			q := resource.MustParse(text)
			require.Equal(t, want.milli, MilliCPU(q))
			require.Equal(t, want.bytes, Bytes(q))
		})
	}
}
