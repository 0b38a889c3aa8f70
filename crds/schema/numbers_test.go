package schema

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

const numbersCRD = `
metadata: {name: things}
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              mode: {type: string, enum: [A]}
              few: {type: integer, format: int32}
              many: {type: integer, format: int64}
              plain: {type: integer}
              small: {type: number, format: float}
              at: {type: string, format: date-time}
              list: {type: array, items: {type: object, properties: {few: {type: integer, format: int32}}}}
              map: {type: object, additionalProperties: {type: integer, format: int32}}
`

// Regression: the fault of an integer beyond its format had no field, and was dropped beside any other fault.
func TestValuesThatDoNotFitTheirFormatAreNamedByTheirField(t *testing.T) {
	const int32Range, int64Range = "must be a whole number from -2147483648 to 2147483647", "must be a whole number from -9223372036854775808 to 9223372036854775807"
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.Unmarshal([]byte(numbersCRD), &definition))
	objects, err := New(&definition, "v1")
	require.NoError(t, err)
	const invalid, mistyped = metav1.CauseTypeFieldValueInvalid, "FieldValueTypeInvalid"
	type faults = []Fault
	for name, tt := range map[string]struct {
		spec string
		want faults
	}{
		"the largest int32":         {"few: 2147483647", nil},
		"a whole number with a dot": {"few: 2.0", nil},
		"more than an int32":        {"few: 3000000000", faults{{Field: "spec.few", Reason: invalid, Message: "Invalid value: 3000000000: " + int32Range}}},
		"less than an int32":        {"few: -3000000000", faults{{Field: "spec.few", Reason: invalid, Message: "Invalid value: -3000000000: " + int32Range}}},
		"far more than an int32":    {"few: 1e30", faults{{Field: "spec.few", Reason: mistyped, Message: "Invalid value: 1e+30: " + int32Range}}},
		"a fraction for an int32":   {"few: 1.5", faults{{Field: "spec.few", Reason: mistyped, Message: "Invalid value: 1.5: " + int32Range}}},
		"a bool for an int32":       {"few: true", faults{{Field: "spec.few", Reason: mistyped, Message: "Invalid value: true: " + int32Range}}},
		"a map for an int32":        {"few: {}", faults{{Field: "spec.few", Reason: mistyped, Message: `Invalid value: "object": ` + int32Range}}},
		"the largest int64":         {"many: 9223372036854775807", nil},
		"more than an int64":        {"many: 9223372036854775808", faults{{Field: "spec.many", Reason: mistyped, Message: "Invalid value: 9.223372036854776e+18: " + int64Range}}},
		"a fraction for an int64":   {"many: 0.5", faults{{Field: "spec.many", Reason: mistyped, Message: "Invalid value: 0.5: " + int64Range}}},
		"a fraction without format": {"plain: 0.5", faults{{Field: "spec.plain", Reason: mistyped, Message: `Invalid value: "number": spec.plain in body must be of type integer: "number"`}}},
		"more than a float":         {"small: 1e300", faults{{Field: "spec.small", Reason: invalid, Message: "Invalid value: 1e+300: must be a number that fits float"}}},
		"a text that is no time":    {"at: yesterday", faults{{Field: "spec.at", Reason: mistyped, Message: `Invalid value: "yesterday": spec.at in body must be of type date-time: "yesterday"`}}},
		"an entry of a list":        {"list: [{few: 1}, {few: 3000000000}]", faults{{Field: "spec.list[1].few", Reason: invalid, Message: "Invalid value: 3000000000: " + int32Range}}},
		"an entry of a map":         {"map: {a: 3000000000}", faults{{Field: "spec.map.a", Reason: invalid, Message: "Invalid value: 3000000000: " + int32Range}}},
		"an entry with an odd name": {"map: {a in b.c: 3000000000}", faults{{Field: "spec.map.a in b.c", Reason: invalid, Message: `Invalid value: "": ` + int32Range}}},
		"two of them, and a mistype": {"few: 3000000000, list: [{few: 3000000000}], mode: 1", faults{
			{Field: "spec.few", Reason: invalid, Message: "Invalid value: 3000000000: " + int32Range},
			{Field: "spec.list[0].few", Reason: invalid, Message: "Invalid value: 3000000000: " + int32Range},
			{Field: "spec.mode", Reason: mistyped, Message: `Invalid value: "integer": spec.mode in body must be of type string: "integer"; write the value in quotes`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := yaml.YAMLToJSON([]byte("{apiVersion: example.com/v1, kind: Thing, metadata: {name: a}, spec: {" + tt.spec + "}}"))
			require.NoError(t, err)
			var object map[string]any
			require.NoError(t, json.Unmarshal(text, &object))
			require.Equal(t, tt.want, objects.Check(object, nil))
		})
	}
}
