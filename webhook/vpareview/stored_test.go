package vpareview

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

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
