package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celvpa/celvpa/controllers/facts"
)

// leaves lists the values of values.yaml that are not themselves maps of values.
func leaves(values map[string]any, path ...string) (out [][]string) {
	for _, key := range sorted(values) {
		at := append(append([]string{}, path...), key)
		inner, isMap := values[key].(map[string]any)
		open := len(inner) == 0 || freeForm[strings.Join(at, ".")] || key == "resources"
		if isMap && !open {
			out = append(out, leaves(inner, at...)...)
		} else {
			out = append(out, at)
		}
	}
	return out
}

// freeForm are the values that are objects of Kubernetes, and as such a single value.
var freeForm = map[string]bool{"podSecurityContext": true, "containerSecurityContext": true}

func defaults(t *testing.T) map[string]any {
	t.Helper()
	dir, err := Dir()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	require.NoError(t, err)
	return parse(t, string(text))
}

// TestEveryValueChangesWhatIsRendered takes each value out of each case that sets it: at least once that must change something.
func TestEveryValueChangesWhatIsRendered(t *testing.T) {
	matters := map[string]bool{}
	for _, values := range cases(t) {
		whole := render(t, values)
		for _, path := range leaves(defaults(t)) {
			if _, set, _ := unstructured.NestedFieldNoCopy(values, path...); !set || matters[strings.Join(path, ".")] {
				continue
			}
			without := runtime.DeepCopyJSON(jsonValues(t, values))
			unstructured.RemoveNestedField(without, path...)
			rest, err := tryRender(without)
			// Without it, values may contradict each other: then it matters, too.
			matters[strings.Join(path, ".")] = err != nil || !maps.Equal(whole, rest)
		}
	}
	for _, path := range leaves(defaults(t)) {
		name := strings.Join(path, ".")
		require.True(t, matters[name], "no case of testdata/values sets %s so that anything changes", name)
	}
}

func jsonValues(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(values)
	require.NoError(t, err)
	out := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// TestTheSchemaHasTheValuesOfTheChart, no more and no fewer, and the feature gates that celvpa has.
func TestTheSchemaHasTheValuesOfTheChart(t *testing.T) {
	dir, err := Dir()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "values.schema.json"))
	require.NoError(t, err)
	schema := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &schema))
	definitions := schema["$defs"].(map[string]any)
	var properties func(node map[string]any, path ...string) []string
	properties = func(node map[string]any, path ...string) (out []string) {
		if ref, ok := node["$ref"].(string); ok {
			node = definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		}
		inner, ok := node["properties"].(map[string]any)
		name := strings.Join(path, ".")
		if !ok || name == "featureGates" || strings.HasSuffix(name, "r.image") { // of a component
			return []string{name}
		}
		require.Equal(t, false, node["additionalProperties"], "%s takes any value", name)
		for _, key := range sorted(inner) {
			out = append(out, properties(inner[key].(map[string]any), append(append([]string{}, path...), key)...)...)
		}
		return out
	}
	var want []string
	for _, path := range leaves(defaults(t)) {
		want = append(want, strings.Join(path, "."))
	}
	require.ElementsMatch(t, append(want, "global"), properties(schema))
	gates, _, _ := unstructured.NestedMap(schema, "properties", "featureGates", "properties")
	require.ElementsMatch(t, sorted(facts.Gates), sorted(gates))
}
