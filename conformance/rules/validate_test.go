package rules

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/engine"
)

func (r *rows) validate(t *testing.T) {
	violation := func(rule, path, reason, message string) []engine.Violation {
		return []engine.Violation{{Rule: "vpa-object/" + rule, Path: path, Reason: reason, Message: message}}
	}
	policies := func(p string) string { return "{spec: {resourcePolicy: {containerPolicies: [" + p + "]}}}" }
	tests := []struct {
		name, object, old string
		gates             map[string]bool
		want              []engine.Violation
	}{
		{name: "the least there can be", object: "{spec: {targetRef: {kind: Deployment, name: web}}}"},
		{name: "every mode", object: "{spec: {updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 1}}}"},
		{name: "a policy without a mode", object: "{spec: {updatePolicy: {minReplicas: 1}}}",
			want: violation("update-mode-required", "spec.updatePolicy.updateMode", "FieldValueRequired",
				"updateMode is required where updatePolicy is given: use Off, Initial, Recreate, InPlaceOrRecreate or InPlace")},
		{name: "an unknown mode", object: "{spec: {updatePolicy: {updateMode: Sometimes}}}",
			want: violation("update-mode-known", "spec.updatePolicy.updateMode", "FieldValueInvalid",
				"update mode Sometimes is not known: use Off, Initial, Recreate, InPlaceOrRecreate or InPlace")},
		{name: "InPlace with its gate off", object: "{spec: {updatePolicy: {updateMode: InPlace}}}",
			want: violation("in-place-gate", "spec.updatePolicy.updateMode", "FieldValueForbidden",
				"update mode InPlace is behind a feature gate: start celvpa with --feature-gates=InPlace=true")},
		{name: "InPlace with its gate on", object: "{spec: {updatePolicy: {updateMode: InPlace}}}", gates: map[string]bool{"InPlace": true}},
		{name: "an object that used InPlace before stays editable", object: "{spec: {updatePolicy: {updateMode: InPlace, minReplicas: 3}}}",
			old: "{spec: {updatePolicy: {updateMode: InPlace}}}"},
		{name: "an object that did not use InPlace before", object: "{spec: {updatePolicy: {updateMode: InPlace}}}", old: "{spec: {updatePolicy: {updateMode: Recreate}}}",
			want: violation("in-place-gate", "spec.updatePolicy.updateMode", "FieldValueForbidden",
				"update mode InPlace is behind a feature gate: start celvpa with --feature-gates=InPlace=true")},
		{name: "Auto still works, with a warning", object: "{spec: {updatePolicy: {updateMode: Auto}}}",
			want: []engine.Violation{{Rule: "vpa-object/auto-is-deprecated", Path: "spec.updatePolicy.updateMode", Reason: "FieldValueInvalid", Warning: true,
				Message: "update mode Auto is deprecated: use Recreate, which does the same, or InPlaceOrRecreate"}}},
		{name: "no replicas", object: "{spec: {updatePolicy: {updateMode: Recreate, minReplicas: 0}}}",
			want: violation("min-replicas-positive", "spec.updatePolicy.minReplicas", "FieldValueInvalid", "minReplicas must be greater than 0")},
		{name: "a policy for nobody", object: policies("{mode: Auto}"),
			want: violation("container-name-required", "spec.resourcePolicy.containerPolicies[0].containerName", "FieldValueRequired",
				"name the container that this policy is for, or use '*' for all others")},
		{name: "bounds in order", object: policies("{containerName: a, minAllowed: {cpu: 100m, memory: 1Gi}, maxAllowed: {cpu: 1, memory: 1073741824}}")},
		{name: "one bound only", object: policies("{containerName: a, minAllowed: {cpu: 2}, maxAllowed: {memory: 1}}")},
		{name: "CPU bounds crossed, in the second policy", object: policies("{containerName: a}, {containerName: b, minAllowed: {cpu: 2}, maxAllowed: {cpu: 1500m}}"),
			want: violation("max-allowed-cpu-above-min", "spec.resourcePolicy.containerPolicies[1].maxAllowed[cpu]", "FieldValueInvalid",
				"maxAllowed.cpu 1500m is below minAllowed.cpu 2")},
		{name: "memory bounds crossed by a byte", object: policies("{containerName: a, minAllowed: {memory: 1Gi}, maxAllowed: {memory: 1073741823}}"),
			want: violation("max-allowed-memory-above-min", "spec.resourcePolicy.containerPolicies[0].maxAllowed[memory]", "FieldValueInvalid",
				"maxAllowed.memory 1073741823 is below minAllowed.memory 1Gi")},
		{name: "two recommenders", object: "{spec: {recommenders: [{name: a}, {name: b}]}}",
			want: violation("one-recommender", "spec.recommenders", "FieldValueInvalid", "at most one recommender can serve an object")},
		{name: "everything wrong at once is all told", object: "{spec: {updatePolicy: {updateMode: X, minReplicas: -1}, recommenders: [{name: a}, {name: b}]}}",
			want: []engine.Violation{
				{Rule: "vpa-object/update-mode-known", Path: "spec.updatePolicy.updateMode", Reason: "FieldValueInvalid", Message: "update mode X is not known: use Off, Initial, Recreate, InPlaceOrRecreate or InPlace"},
				{Rule: "vpa-object/min-replicas-positive", Path: "spec.updatePolicy.minReplicas", Reason: "FieldValueInvalid", Message: "minReplicas must be greater than 0"},
				{Rule: "vpa-object/one-recommender", Path: "spec.recommenders", Reason: "FieldValueInvalid", Message: "at most one recommender can serve an object"},
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := r.plan(t, policy.Options{Gates: tt.gates})
			object := *fromYAML[map[string]any](t, tt.object)
			var old map[string]any
			if tt.old != "" {
				old = *fromYAML[map[string]any](t, tt.old)
			}
			got := plan.Validate(facts.VPAValidate, object, old)
			for _, v := range got {
				r.fired[v.Rule] = true
			}
			require.Equal(t, tt.want, got)
		})
	}
}
