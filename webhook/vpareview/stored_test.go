package vpareview

import (
	"bytes"
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

// relabelled is an object with a label more.
func relabelled(object []byte) []byte {
	return bytes.Replace(object, []byte(`"name":"web"`), []byte(`"name":"web","labels":{"a":"b"}`), 1)
}

// TestWhatIsStoredStaysEditable though controllers cannot decode it. Upstream's CRD admits such amounts. Regression: an update was
// refused, so that garbage collectors could not remove their finalizer, and the object was never deleted.
func TestWhatIsStoredStaysEditable(t *testing.T) {
	of := func(most, mode string) []byte {
		return vpa(t, "updatePolicy: {updateMode: "+mode+"}, resourcePolicy: {containerPolicies: [{containerName: a, maxAllowed: {cpu: '"+most+"'}}]}")
	}
	const field = "spec.resourcePolicy.containerPolicies[0].maxAllowed"
	stored := of("1e1.5", "Recreate")
	for name, tt := range map[string]struct {
		object  []byte
		allowed bool
	}{
		"its labels change":        {relabelled(stored), true},
		"nothing changes":          {stored, true},
		"another field changes":    {of("1e1.5", "Initial"), true},
		"the amount changes":       {of("1e2.5", "Recreate"), false},
		"the amount can be read":   {of("2", "Recreate"), true},
		"a new one that is as bad": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			old := stored
			if tt.object == nil {
				tt.object, old = stored, nil
			}
			answer := Review(plan(t), Read(tt.object, old, ""))
			require.Equal(t, tt.allowed, answer.Allowed(), "%q", lines(answer.Causes))
			if !tt.allowed {
				require.Contains(t, answer.Causes[0].Field, field)
			} else if bytes.Contains(tt.object, []byte("1e1.5")) {
				require.Len(t, answer.Warnings, 1)
				require.Contains(t, answer.Warnings[0].Field, field)
				require.Empty(t, answer.Patch, "no default is set in what is not understood")
			}
		})
	}
}
