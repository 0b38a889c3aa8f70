package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// mountedRules renders the chart, and returns what its ConfigMap with rules has.
func mountedRules(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	objects, err := Objects(map[string]string{"rules.yaml": render(t, values)["rules.yaml"]})
	require.NoError(t, err)
	require.Len(t, objects, 1)
	data, _, err := unstructured.NestedStringMap(objects[0].Object, "data")
	require.NoError(t, err)
	return data
}

// TestRuleFilesAreMountedAsTheyAre, to the byte, so that positions in messages about them are those of the user's file.
func TestRuleFilesAreMountedAsTheyAre(t *testing.T) {
	for name, text := range map[string]string{
		"an ordinary file":               "apiVersion: x\nkind: y\n",
		"an indented first line":         "  # comment\napiVersion: x\n",
		"an indented first document":     "  apiVersion: x\n  kind: y\n",
		"blank lines first":              "\n    \n\napiVersion: x\n",
		"no newline at the end":          "apiVersion: x",
		"newlines and blanks at the end": "apiVersion: x\n\n  \n\n",
		"lines that end as on Windows":   "apiVersion: x\r\nkind: y\r\n",
		"tabs":                           "\t# comment\n\tx: y\n",
		"characters that JSON escapes":   "x: \"a < b && c > d \\u00e9 \u2028 \x07 é 🙂\"\n",
		"what looks like a template":     "x: '{{ .Values.rules }}'\n",
		"nothing":                        "",
	} {
		t.Run(name, func(t *testing.T) {
			got := mountedRules(t, map[string]any{"rules": map[string]any{"a.yaml": text, "b.yaml": "after: it\n"}})
			require.Equal(t, map[string]string{"a.yaml": text, "b.yaml": "after: it\n"}, got)
		})
	}
}

// TestOverlaysAreMountedAsRuleOverlays, whatever YAML takes their names for.
func TestOverlaysAreMountedAsRuleOverlays(t *testing.T) {
	spec := map[string]any{"note": "  indented\nthen not\n", "change": []any{map[string]any{"params": map[string]any{"marginFraction": 0.3}}}}
	for _, name := range []string{"payments", "1", "1e3", "true", "null"} {
		got := mountedRules(t, map[string]any{"overlays": []any{map[string]any{"name": name, "spec": spec}}})
		overlay := map[string]any{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(got["overlay-"+name+".yaml"]), &overlay), name)
		require.Equal(t, map[string]any{
			"apiVersion": "rules.celvpa.dev/v1alpha1", "kind": "RuleOverlay", "metadata": map[string]any{"name": name}, "spec": spec,
		}, overlay)
	}
}
