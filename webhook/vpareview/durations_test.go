package vpareview

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestDurationsAreReadAsGoReadsThem: what the rules of the schema accept is what the controllers can decode, and more than 0.
func TestDurationsAreReadAsGoReadsThem(t *testing.T) {
	rules := plan(t, "PerVPAConfig")
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{".5h", "5.h", "+2h", "-2h", "0", "+0", "00", "", ".", "h", ".h", "2", "1h30", "1h 30m", "1H", "1d", "2h+3m", "--2h", "1e3s",
		"1h2m3s4ms5us6ns", "7µs", "7μs", "0.000000001s", "0.0000000000001s", "0h0m0s", "1.12345678901234567h"}
	pieces := []string{"h", "m", "s", "ms", "us", "µs", "μs", "ns", ".", "+", "-", "0", "1", "23", "999", " "}
	for range 400 {
		var text strings.Builder
		for range 1 + random.IntN(6) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		texts = append(texts, text.String())
	}
	accepted := 0
	for _, text := range texts {
		object := vpa(t, `resourcePolicy: {containerPolicies: [{containerName: app, memoryAggregationInterval: "`+text+`"}]}`)
		d, err := time.ParseDuration(text)
		answer := Review(rules, Read(object, nil, ""))
		require.Equal(t, err == nil && d > 0, answer.Allowed(), "%q is %s (%v) to Go: %v", text, d, err, lines(answer.Causes))
		if !answer.Allowed() {
			require.Len(t, answer.Causes, 1, "one fault is reported once")
			continue
		}
		accepted++
		v, err := vpav1.Decode(object)
		require.NoError(t, err, text)
		require.Equal(t, d, v.Spec.ResourcePolicy.ContainerPolicies[0].MemoryAggregationInterval.Duration, text)
	}
	require.Greater(t, accepted, 25)
}
