package engine_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

func validateRules(t *testing.T, body string, opts compile.Options) func(engine.Judged) []engine.Violation {
	plan := mustCompile(t, "order.validate", body, opts)
	return func(j engine.Judged) []engine.Violation { return plan.Validate("order.validate", j, nil) }
}

func TestValidationChecksSeveralPaths(t *testing.T) {
	judge := validateRules(t, `
  validations:
  - {name: named, at: ["lines[*]", "gifts[*]"], enforce: [Admission], expression: has(self.name), message: give it a name, fieldPath: .name}
`, compile.Options{})
	got := judge(engine.Judged{Object: map[string]any{"lines": []any{map[string]any{"name": "a"}}, "gifts": []any{map[string]any{}, map[string]any{}}}})
	require.Equal(t, []string{"gifts[0].name", "gifts[1].name"}, inWords(got, func(v engine.Violation) string { return v.Path }))
}

func TestViolationInAnUnchangedValueIsAWarning(t *testing.T) {
	judge := validateRules(t, `
  validations:
  - {name: priced, at: "lines[*]", enforce: [Admission], expression: self.price > 0, message: a price}
  - {name: never-cheaper, at: "lines[*]", enforce: [Admission], expression: size(oldObject.lines) > 5, message: a transition}
`, compile.Options{})
	broken, other := []any{map[string]any{"price": 0}}, []any{map[string]any{"price": 0}, map[string]any{"price": 1}}
	warnings := func(got []engine.Violation) (out []bool) {
		for _, v := range got {
			out = append(out, v.Warning)
		}
		return out
	}
	same := judge(engine.Judged{Object: map[string]any{"lines": broken, "note": "b"}, Old: map[string]any{"lines": broken, "note": "a"}})
	require.Equal(t, []bool{true, false}, warnings(same), "a rule that reads what was there decides itself what may stay")
	require.Equal(t, []bool{false, false, false}, warnings(judge(engine.Judged{Object: map[string]any{"lines": other}, Old: map[string]any{"lines": broken}})))
}

func TestValidationsReadParamsAndFacts(t *testing.T) {
	judge := validateRules(t, `
  params: [{name: most, type: int, default: "2"}, {name: never, type: int}]
  validations:
  - {name: few, enforce: [Admission], expression: size(self.lines) + size(others) <= params.most, message: too much}
  - {name: known, enforce: [Admission], when: has(buyer.tier), expression: "buyer.tier != 'none' && !has(params.never)", message: who is this}
`, compile.Options{Params: map[string]string{"s.most": "1"}})
	object := map[string]any{"lines": []any{1}}
	require.Empty(t, judge(engine.Judged{Object: object}), "facts that are not given are empty")
	got := judge(engine.Judged{Object: object, Facts: validatePoint.NewFacts().
		Set("others", lang.Records([]*lang.Record{lineSchema.New()})).Set("buyer", customerSchema.New().SetString("tier", "none"))})
	require.Equal(t, []string{"s/few", "s/known"}, inWords(got, func(v engine.Violation) string { return v.Rule }))
}

// An overlay can add a rule that the cluster's schema lacks.
func TestSchemaRulesAlsoRunInTheEngine(t *testing.T) {
	judge := validateRules(t, `
  validations:
  - {name: a, enforce: [Schema], expression: "false", message: only there}
  - {name: b, enforce: [Admission], expression: "false", message: only here}
`, compile.Options{})
	require.Len(t, judge(engine.Judged{Object: map[string]any{}}), 2)
	require.Equal(t, []string{"s/a"}, inWords(judge(engine.Judged{Object: map[string]any{}, Schema: true}), func(v engine.Violation) string { return v.Rule }))
}

func TestUnsupportedSchemaRulesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ rule, want string }{
		"a warning":              {`enforce: [Schema], severity: Warn, expression: "true", message: m`, "rules of a schema refuse; enforce a warning at Admission only"},
		"no static message":      {`enforce: [Schema], expression: "true", messageExpression: "'m'"`, "needs a message beside messageExpression"},
		"gates":                  {`enforce: [Schema], expression: gates.Vouchers, message: m`, "undeclared reference to 'gates': a schema does not know it; enforce the rule at Admission only"},
		"an undeclared variable": {`enforce: [Schema], expression: size(others) == 0, message: m`, "undeclared reference to 'others'"},
		"an unknown reason":      {`enforce: [Admission], reason: Bad, expression: "true", message: m`, `reason "Bad" is not known`},
		"a field of nothing":     {`enforce: [Admission], fieldPath: price, expression: "true", message: m`, "expected . but got price"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compileOne("order.validate", "  validations:\n  - {name: a, "+c.rule+"}\n", compile.Options{})
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestValidationsCanBeListed(t *testing.T) {
	plan := mustCompile(t, "order.validate", `
  validations:
  - {name: a, at: "lines[*]", enforce: [Admission], when: gates.Vouchers, expression: size(others) > self.price, message: m}
`, compile.Options{})
	got := plan.Validations("order.validate")
	require.Len(t, got, 1)
	require.Equal(t, "s/a", got[0].Rule)
	require.Equal(t, []string{"gates", "others", "self"}, got[0].Reads)
	require.Empty(t, plan.Validations("order.adjust"))
}

func TestSchemaHoldsOnlyUnconditionalValidations(t *testing.T) {
	overlay := func(name, spec string) string {
		return "---\napiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
	}
	validation := func(name string) string {
		return "change: [{after: s, validation: {name: " + name + `, enforce: [Schema], expression: "true", message: m}}]`
	}
	files := oneRuleSet(shop(), "order.validate", "  validations:\n  - {name: own, enforce: [Schema, Admission], expression: \"true\", message: m}\n")
	files["o.yaml"] = &fstest.MapFile{Data: []byte(overlay("all", validation("a")) + overlay("some", "match: {namespaces: [x]}, "+validation("b")) + overlay("tried", "mode: Audit, "+validation("c")))}
	lib, err := document.Loader{}.Load(document.Layer{FS: files})
	require.NoError(t, err)
	book, err := compile.NewRulebook(lib, shop(), compile.Options{Pipeline: "p"})
	require.NoError(t, err)
	plan, err := book.Everywhere()
	require.NoError(t, err)
	require.Equal(t, []string{"s/own", "s/a"}, inWords(plan.Validations("order.validate"), func(v engine.ValidationInfo) string { return v.Rule }))
	found := book.Findings()
	require.Len(t, found, 1, "what is only tried goes into the schema once it is enforced")
	require.Contains(t, found[0].Message, "a schema is the same for all objects")
	require.Contains(t, found[0].Subject, "some")
}

func TestDisablingASchemaRuleForSomeIsAFinding(t *testing.T) {
	overlay := func(spec string) []*source.Problem {
		files := oneRuleSet(shop(), "order.validate", "  validations:\n  - {name: own, enforce: [Schema, Admission], expression: \"true\", message: m}\n  - {name: two, enforce: [Admission], expression: \"true\", message: m}\n")
		files["o.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: o}\nspec: {" + spec + "}\n")}
		lib, err := document.Loader{}.Load(document.Layer{FS: files})
		require.NoError(t, err)
		book, err := compile.NewRulebook(lib, shop(), compile.Options{Pipeline: "p"})
		require.NoError(t, err)
		return book.Findings()
	}
	found := overlay("match: {namespaces: [x]}, change: [{disable: s/own}]")
	require.Len(t, found, 1)
	require.Contains(t, found[0].Message, "s/own is enforced by the schema, which is the same for all objects: API servers go on refusing what it refuses")
	require.Empty(t, overlay("match: {namespaces: [x]}, change: [{disable: s/two}]"))
	require.Empty(t, overlay("change: [{disable: s/own}]"), "celvpa crd heeds it")
}
