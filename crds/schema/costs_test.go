package schema

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// TestCostsAreLimitedAsInAPIServers of each expression.
func TestCostsAreLimitedAsInAPIServers(t *testing.T) {
	point, reg := validatePoint(t)
	const names = "self.resourcePolicy.containerPolicies"
	plan, err := compiledRules(reg, []string{fmt.Sprintf("  - {name: r, at: spec, enforce: [Admission], expression: %q, message: no}\n", names+".all(p, "+names+".exists_one(q, q.containerName == p.containerName))")})
	require.NoError(t, err)
	judged := func(policies int) []engine.Violation {
		list := make([]any, policies)
		for i := range list {
			list[i] = map[string]any{"containerName": fmt.Sprint(i)}
		}
		object := map[string]any{"spec": map[string]any{"resourcePolicy": map[string]any{"containerPolicies": list}}}
		return plan.Validate(point.Name, engine.Judged{Object: object}, nil)
	}
	require.Empty(t, judged(100))
	failed := judged(3000)
	require.Len(t, failed, 1)
	require.Contains(t, failed[0].Message, "actual cost limit exceeded")
}

func validatePoint(t *testing.T) (*registry.Point, *registry.Registry) {
	point := &registry.Point{Name: "vpa.validate", Kind: registry.ValidationPoint, Objects: vpaObjects(t),
		Vars: []registry.Var{{Name: "many", Type: lang.ListOf(lang.RecordOf(lang.NewSchema("Few", lang.Field{Name: "a", Type: lang.Int})))}}}
	reg := registry.New()
	reg.AddPoint(point)
	return point, reg
}

func compiledRules(reg *registry.Registry, validations []string) (*engine.Plan, error) {
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{
		"s.yaml": {Data: []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: s}\nspec:\n  version: 1.0.0\n  point: vpa.validate\n" +
			"  validations:\n" + strings.Join(validations, ""))},
		"p.yaml": {Data: []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: Pipeline\nmetadata: {name: p}\nspec: {version: 1.0.0, points: {vpa.validate: [s@1.0.0]}}\n")},
	}})
	if err != nil {
		return nil, err
	}
	return compile.Compile(lib, reg, compile.Options{Pipeline: "p"})
}
