package manifests

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Any input is read or reported; documents are JSON, and places lie within the text.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "---", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n--- # b\n{apiVersion: v1, kind: List, items: [{}, 7]}\n...\n",
		`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}}]}{"a"`, "a: &x [*x]\nb: {<<: *x, <<: *x}\n? [c]\n: d\n", "\ufeff\t- |\n  ---\n", "kind: !!binary x\n'': \"\\ud800\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := Read([]string{Stdin}, bytes.NewReader(text))
		lines := bytes.Count(text, []byte("\n")) + 1
		for i := range set.Documents {
			d := &set.Documents[i]
			require.True(t, json.Valid(d.JSON))
			require.NotEmpty(t, d.Kind)
			require.GreaterOrEqual(t, d.Source.Line, 1)
			require.LessOrEqual(t, d.Source.Line, lines)
		}
		if err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}
