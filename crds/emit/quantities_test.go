package emit_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/celvpa/celvpa/crds"
	"github.com/celvpa/celvpa/crds/emit"
	"github.com/celvpa/celvpa/crds/quantity"
)

// read matches isQuantity calls on anything but literals.
var read = regexp.MustCompile(`isQuantity\((string\([^()]*\))\)`)

// Also in the status, whose writer may differ from the spec's. API servers run rules even on values
// that the pattern refuses, so schema rules check the exponent themselves.
func TestQuantitiesAreBoundedInTheWholeSchema(t *testing.T) {
	definition, err := crds.Definition(crds.VPA)
	require.NoError(t, err)
	found := map[string]int{}
	var look func(at string, s *apiextensionsv1.JSONSchemaProps)
	look = func(at string, s *apiextensionsv1.JSONSchemaProps) {
		if s.XIntOrString {
			found[strings.SplitN(at, ".", 3)[1]]++
			require.NotNil(t, s.MaxLength, at)
			require.EqualValues(t, quantity.MaxLength, *s.MaxLength, at)
			require.Equal(t, quantity.Pattern, s.Pattern, at)
		}
		for name, field := range s.Properties {
			look(at+"."+name, &field)
		}
		if s.Items != nil {
			look(at+"[*]", s.Items.Schema)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			look(at+"[*]", s.AdditionalProperties.Schema)
		}
	}
	look("", definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
	require.Equal(t, map[string]int{"spec": 13, "status": 8}, found)
}

func TestRulesOfTheSchemaReadNoQuantityThatTakesForEver(t *testing.T) {
	all, _ := generated(t, "")
	reads := 0
	for _, crd := range all {
		text, err := emit.YAML(crd)
		require.NoError(t, err)
		// ignore line wrapping
		joined := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "''", "'")), " ")
		for _, rule := range strings.Split(joined, "rule: ")[1:] {
			for _, m := range read.FindAllStringSubmatchIndex(rule, -1) {
				argument := rule[m[2]:m[3]]
				guard := strings.Index(rule, argument+`.matches("[eE][+-]?[0-9]{4}")`)
				require.True(t, guard >= 0 && guard < m[0], "%s is read and not looked at before: %s", argument, rule[:min(len(rule), 400)])
				reads++
			}
		}
	}
	require.Greater(t, reads, 10)
}
