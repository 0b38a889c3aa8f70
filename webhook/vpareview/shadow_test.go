package vpareview

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/policy"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// TestWhatAnOverlayInModeWarnWouldSayIsAWarning in both directions; one in mode Audit says nothing here.
func TestWhatAnOverlayInModeWarnWouldSayIsAWarning(t *testing.T) {
	const stricter = `{after: vpa-object/min-replicas-positive, validation: {name: two, at: spec.updatePolicy, enforce: [Admission], expression: "self.minReplicas > 1", message: two, fieldPath: .minReplicas}}`
	auto := func(replicas int) string {
		return fmt.Sprintf(`,"updatePolicy":{"updateMode":"Auto","minReplicas":%d}`, replicas)
	}
	for name, tt := range map[string]struct{ mode, change, policy, want string }{
		"stricter":             {mode: "Warn", change: stricter, policy: auto(1), want: "spec.updatePolicy.minReplicas: RuleOverlay mine (Warn) would refuse this: two (rule vpa-object/two)"},
		"stricter, and valid":  {mode: "Warn", change: stricter, policy: auto(2)},
		"stricter, in Audit":   {mode: "Audit", change: stricter, policy: auto(1)},
		"allowing more":        {mode: "Warn", change: "{disable: vpa-object/min-replicas-positive}", policy: auto(0), want: "spec.updatePolicy.minReplicas: RuleOverlay mine (Warn) would not refuse this: minReplicas must be greater than 0 (rule vpa-object/min-replicas-positive)"},
		"warning less":         {mode: "Warn", change: "{disable: vpa-object/auto-is-deprecated}", policy: auto(2), want: "spec.updatePolicy.updateMode: RuleOverlay mine (Warn) would not warn: update mode Auto is deprecated: use Recreate, which does the same, or InPlaceOrRecreate (rule vpa-object/auto-is-deprecated)"},
		"other defaults":       {mode: "Warn", change: "{disable: defaults/update-policy/recreate}", want: `RuleOverlay mine (Warn) would not change the object by {"op":"add","path":"/spec/updatePolicy","value":{"updateMode":"Recreate"}} (rule vpa.default)`},
		"of other validations": {mode: "Warn", change: "{disable: vpa-object/one-recommender}", policy: auto(0)},
	} {
		t.Run(name, func(t *testing.T) {
			book, err := policy.Load(policy.Options{Cache: &compiledSets, Path: writeRules(t,
				"{apiVersion: rules.celvpa.dev/v1alpha1, kind: RuleOverlay, metadata: {name: mine}, spec: {mode: "+tt.mode+", change: ["+tt.change+"]}}")})
			require.NoError(t, err)
			req := Read([]byte(`{"metadata":{"name":"a"},"spec":{"targetRef":{"kind":"Deployment","name":"a"}`+tt.policy+`}}`), nil, "")
			chosen := policy.For(book, &vpav1.VerticalPodAutoscaler{})
			var got string
			for _, shadow := range chosen.Shadows {
				for _, c := range ShadowWarnings(shadow, Differences(Review(chosen.Plan, req), Review(shadow.Plan, req))) {
					got += fmt.Sprint(c)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// writeRules puts rules into a file of their own.
func writeRules(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
