package manifests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
)

// laughs is a "billion laughs" manifest: each alias expands to ten of the previous.
func laughs() string {
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return text.String()
}

// Expansion is bounded in time and memory, and other documents are still read.
func TestManifestsThatBecomeMuchAreRefused(t *testing.T) {
	const head, good = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "---\napiVersion: v1\nkind: Pod\nmetadata: {name: good}\n"
	for name, text := range map[string]string{
		"aliases of aliases":                laughs(),
		"an alias of itself":                head + "spec: &a [*a, *a]\n",
		"merge keys of themselves":          head + "spec: &a\n  <<: [*a, *a]\n",
		"lists in lists":                    head + "spec: " + strings.Repeat("[", 100_000) + "\n",
		"mappings in mappings":              head + "spec: " + strings.Repeat("{a: ", 100_000) + "\n",
		"lists in lists that end":           head + "spec: " + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "\n",
		"JSON in JSON":                      `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":` + strings.Repeat(`{"a":`, 200_000) + "\n",
		"lists of objects in such":          strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 20_000) + strings.Repeat("]}", 20_000) + "\n",
		"a key that is there twice":         head + "kind: Pod\n",
		"a key that is there twice in JSON": `{"apiVersion":"v1","kind":"Pod","kind":"Service","metadata":{"name":"a"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			var set *Set
			var err error
			require.Less(t, hang.Bytes(t, func() { set, err = Read([]string{Stdin}, strings.NewReader(text+good)) }), uint64(512<<20))
			require.Error(t, err)
			require.Less(t, len(err.Error()), 64<<10)
			require.Len(t, set.Documents, 1, "%v", err)
			require.Equal(t, "good", set.Documents[0].Name)
		})
	}
}
