package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// laughs is a YAML bomb: each alias expands to ten of the previous one, a billion in all.
func laughs() string {
	var text strings.Builder
	text.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return text.String()
}

func TestYAMLThatBecomesMuchIsRefused(t *testing.T) {
	indented := "    " + strings.ReplaceAll(strings.TrimSpace(laughs()), "\n", "\n    ")
	for name, text := range map[string]string{
		"aliases of aliases in a rule set": "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: a}\nspec:\n  version: 1.0.0\n  point: p\n  stages:\n" + indented + "\n    z: *a9\n",
		"aliases of aliases in an overlay": "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: a}\nspec:\n" + strings.ReplaceAll(indented, "    a", "  a") + "\n  patches: *a9\n",
		"aliases of aliases in a table":    "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleTest\nmetadata: {name: a}\nspec:\n  point: p\n  given:\n" + indented + "\n  rows: *a9\n",
		"an alias of itself":               "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: a}\nspec: &s {stages: [*s, *s]}\n",
		"merge keys that multiply":         "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: a}\nspec: &s\n  <<: [*s, *s]\n",
		"lists in lists":                   "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: a}\nspec: " + strings.Repeat("[", 100_000) + "\n",
		"mappings in mappings":             "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: a}\nspec: " + strings.Repeat("{a: ", 100_000) + "\n",
		"lists in lists that end":          "spec: " + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000) + "\n",
		"a key that is twice there":        "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nkind: RuleSet\nmetadata: {name: a}\nspec: {}\n",
		"indentation without end":          deep(3_000),
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			require.Less(t, hang.Bytes(t, func() {
				var lib *document.Library
				if lib, err = (document.Loader{}).Load(document.Layer{FS: fstest.MapFS{"f.yaml": {Data: []byte(text)}}}); err == nil {
					_, err = compile.Compile(lib, shop(), compile.Options{Pipeline: "p"})
				}
			}), uint64(512<<20))
			require.Error(t, err)
			require.Less(t, len(err.Error()), 1<<20)
		})
	}
}

func deep(levels int) string {
	var text strings.Builder
	for i := range levels {
		fmt.Fprintf(&text, "%sa:\n", strings.Repeat(" ", i))
	}
	return text.String()
}

func TestAConditionOfBracketsInBracketsIsRefused(t *testing.T) {
	body := "\n  decisions: [{name: d, do: Ship, when: '" + strings.Repeat("(", 50_000) + "true" + strings.Repeat(")", 50_000) + "'}]\n"
	bytes := hang.Bytes(t, func() {
		_, err := compileOne("order.ship", body, compile.Options{})
		require.Error(t, err)
	})
	require.Less(t, bytes, uint64(64<<20))
}
