package schema

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// TestCostsAreLimitedAsInAPIServers: a rule that compares all policies with each other runs for 100 of them, and fails for 3000.
func TestCostsAreLimitedAsInAPIServers(t *testing.T) {
	reg := registry.New()
	reg.AddPoint(&registry.Point{Name: "vpa.validate", Kind: registry.ValidationPoint, Objects: vpaObjects(t), Vars: []registry.Var{
		{Name: "record", Type: lang.RecordOf(lang.NewSchema("Record", lang.Field{Name: "a", Type: lang.Int}))}, // a registry without any has no operator in
	}})
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{
		"s.yaml": {Data: []byte(`apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: s}
spec:
  version: 1.0.0
  point: vpa.validate
  validations:
  - name: r
    at: spec.resourcePolicy
    enforce: [Admission]
    expression: self.containerPolicies.all(p, self.containerPolicies.exists_one(q, q.containerName == p.containerName))
    message: "no"
`)},
		"p.yaml": {Data: []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: Pipeline\nmetadata: {name: p}\nspec: {version: 1.0.0, points: {vpa.validate: [s@1.0.0]}}\n")},
	}})
	require.NoError(t, err)
	plan, err := compile.Compile(lib, reg, compile.Options{Pipeline: "p"})
	require.NoError(t, err)
	judged := func(policies int) []engine.Violation {
		list := make([]any, policies)
		for i := range list {
			list[i] = map[string]any{"containerName": fmt.Sprint(i)}
		}
		object := map[string]any{"spec": map[string]any{"resourcePolicy": map[string]any{"containerPolicies": list}}}
		return plan.Validate("vpa.validate", engine.Judged{Object: object}, nil)
	}
	require.Empty(t, judged(100))
	failed := judged(3000)
	require.Len(t, failed, 1)
	require.Contains(t, failed[0].Message, "actual cost limit exceeded")
}
