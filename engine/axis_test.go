package engine_test

import (
	"io"
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

// measured is a policy over an axis: price and weight.
const measured = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: Pipeline
metadata: {name: p}
spec:
  version: 1.0.0
  params:
  - name: most
    each: measure
    type: {price: cents, weight: grams}
    default: {price: 50, weight: 900}
    description: Most {measure} of a line
  - {name: step, type: int, default: 2}
  points: {order.adjust: [scale@1.0.0, cap@1.0.0], order.ship: [ship@1.0.0], order.validate: [valid@1.0.0]}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: scale}
spec:
  version: 1.0.0
  point: order.adjust
  params:
  - {name: factor, each: measure, type: int, default: {price: 1, weight: 3}}
  stages:
  - name: scale
    each: [line, measure]
    when: measure in now
    variables:
      scaled: now[measure] * params.factor[measure]
    rules:
    - name: by-factor
      when: measure != 'price' || scaled > 0
      set: {"now[measure]": scaled}
      note: "{measure} scaled"
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: cap}
spec:
  version: 1.0.0
  point: order.adjust
  stages:
  - name: cap
    each: [line, measure]
    rules:
    - name: most
      when: measure in now && now[measure] > params.most[measure]
      set: {"now[measure]": "params.most[measure]"}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: ship}
spec:
  version: 1.0.0
  point: order.ship
  decisions:
  - {name: all, when: "size(lines) > 0 && lines.all(l, measures.all(m, m in l && l[m] > 0))", do: Ship}
  - {name: some, when: "measures.exists(m, lines.exists(l, m in l && params.most[m] > 0 && l[m] > params.most[m]))", do: Ask}
  - {name: sum, when: "sum(measures.map(m, size(lines.filter(l, m in l)))) > params.step", do: Ask}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: valid}
spec:
  version: 1.0.0
  point: order.validate
  validations:
  - name: positive
    axes: [measure]
    at: "{lines,gifts}[*]"
    enforce: [Admission]
    when: measure in self
    expression: self[measure] > 0
    message: "{measure} must be above 0"
    messageExpression: "measure + ' is ' + string(self[measure])"
    fieldPath: .line[measure]
`

func measuredBook(overlays ...string) (*compile.Rulebook, error) {
	return bookOf(measured, overlays...)
}

func libraryOf(rules string, overlays ...string) (*document.Library, error) {
	return document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"base.yaml": {Data: []byte(rules)}}},
		overlayLayer(overlays))
}

func bookOf(rules string, overlays ...string) (*compile.Rulebook, error) {
	lib, err := libraryOf(rules, overlays...)
	if err != nil {
		return nil, err
	}
	return compile.NewRulebook(lib, shop(), compile.Options{Pipeline: "p"})
}

// adjusted runs the rules over two lines, one without a weight.
func adjusted(t *testing.T, plan *engine.Plan) (f *registry.Facts, trace *engine.Trace) {
	t.Helper()
	f, trace = order(40, 70), &engine.Trace{}
	line(f, 0).SetInt("weight", 200)
	require.Empty(t, plan.RunStages("order.adjust", f, trace))
	return f, trace
}

func amounts(f *registry.Facts) (out []int64) {
	for i := range f.ByScope()[0] {
		for _, field := range []string{"price", "weight"} {
			if n, ok := line(f, i).Int(field); ok {
				out = append(out, n)
			}
		}
	}
	return out
}

func TestStageRunsForEachAxisValue(t *testing.T) {
	book, err := measuredBook()
	require.NoError(t, err)
	require.Empty(t, book.Findings())
	f, trace := adjusted(t, book.Default())
	require.Equal(t, []int64{40, 600, 50}, amounts(f))
	require.Equal(t, []string{"price scaled", "weight scaled"}, f.ByScope()[0][0].Notes)
	fields := inWords(trace.Steps(), func(s engine.Step) string { return s.Path() + " " + s.Item + " " + s.Field + " " + s.To })
	require.Equal(t, []string{"scale/scale/by-factor line-0  ", "scale/scale/by-factor line-1  ", "scale/scale/by-factor line-0 now.weight 600g", "cap/cap/most line-1 now.price 50c"}, fields)
	interpreted, _ := adjusted(t, book.Default().Interpreted())
	require.Equal(t, amounts(f), amounts(interpreted))
}

func TestOneValueMayWriteAnyField(t *testing.T) {
	plan, err := compileOne("order.adjust", "  stages: [{name: a, each: [line, measure], without: [price], rules: [{name: r, when: measure in now, set: {total.free: 'true'}}]}]\n", compile.Options{})
	require.NoError(t, err)
	f := order(1)
	require.Empty(t, plan.RunStages("order.adjust", f, nil))
	require.False(t, f.Values()[1].Ref.(*lang.Record).Bool("free"))
	line(f, 0).SetInt("weight", 1)
	require.Empty(t, plan.RunStages("order.adjust", f, nil))
	require.True(t, f.Values()[1].Ref.(*lang.Record).Bool("free"))
}

func TestStageIteratesOverSeveralScopes(t *testing.T) {
	r := shop()
	r.AddPoint(&registry.Point{Name: "parcel", Kind: registry.StagePoint, Scopes: []registry.Scope{
		{Name: "box", Vars: []registry.Var{{Name: "now", Type: lang.RecordOf(lineSchema), Writable: true}}},
		{Name: "whole", Vars: []registry.Var{{Name: "now", Type: lang.RecordOf(lineSchema), Writable: true}, {Name: "fee", Type: lang.IntOf("cents")}}}}})
	const body = "  stages: [{name: a, each: [box, whole, measure], rules: [{name: twice, when: measure in now, set: {'now[measure]': 'now[measure] * 2'}}]}]\n"
	plan, err := compileAt(r, "parcel", body, compile.Options{})
	require.NoError(t, err)
	f := r.PointsByName()["parcel"].NewFacts()
	box, whole := lineSchema.New().SetInt("price", 1).SetInt("weight", 2), lineSchema.New().SetInt("weight", 3)
	f.AddItem("box", "b").Set("now", box)
	f.AddItem("whole", "w").Set("now", whole)
	require.Empty(t, plan.RunStages("parcel", f, nil))
	require.Equal(t, []any{int64(2), int64(4), int64(6)}, []any{box.Cells()[0].Val().Value(), box.Cells()[2].Val().Value(), whole.Cells()[2].Val().Value()})
	_, err = compileAt(r, "parcel", strings.Replace(body, "measure in now", "fee > cents('1c')", 1), compile.Options{})
	require.ErrorContains(t, err, "undeclared reference to 'fee'")
}

func TestAxisPluralListsAllValues(t *testing.T) {
	book, err := measuredBook()
	require.NoError(t, err)
	decide := func(lines ...*lang.Record) string {
		facts := shipPoint.NewFacts().Set("customer", customerSchema.New()).Set("lines", lang.Records(lines))
		v := book.Default().Decide("order.ship", facts, nil)
		require.Equal(t, v, book.Default().Interpreted().Decide("order.ship", facts, nil))
		return v.Rule
	}
	require.Equal(t, "ship/all", decide(lineSchema.New().SetInt("price", 1).SetInt("weight", 1)))
	require.Equal(t, "ship/some", decide(lineSchema.New().SetInt("weight", 901)))
	require.Equal(t, "default", decide(lineSchema.New().SetInt("weight", 900)))
	require.Equal(t, "ship/sum", decide(lineSchema.New().SetInt("price", 1), lineSchema.New().SetInt("price", 0), lineSchema.New().SetInt("weight", 1)))
}

func TestValidationRunsForEachAxisValue(t *testing.T) {
	book, err := measuredBook()
	require.NoError(t, err)
	object := map[string]any{"lines": []any{map[string]any{"price": 0, "weight": 1}}, "gifts": []any{map[string]any{"weight": -1}}}
	got := book.Default().Validate("order.validate", engine.Judged{Object: object}, nil)
	require.Equal(t, []string{"valid/positive lines[0].line['price'] price is 0", "valid/positive gifts[0].line['weight'] weight is -1"},
		inWords(got, func(v engine.Violation) string { return v.Rule + " " + v.Path + " " + v.Message }))
	infos := book.Default().Validations("order.validate")
	require.Equal(t, []string{"valid/positive", "valid/positive"}, inWords(infos, func(i engine.ValidationInfo) string { return i.Rule }))
	v := infos[1].Validation
	require.Equal(t, []string{`"weight" in self`, "self.weight > 0", `"weight" + " is " + string(self.weight)`, "weight must be above 0", ".line['weight']"},
		[]string{v.When.Value, v.Expression.Value, v.MessageExpression.Value, v.Message.Value, v.FieldPath.Value}, "API servers know no axes")
}

func TestOverlaysAddressAllValuesOrOne(t *testing.T) {
	for change, want := range map[string][]int64{
		"{disable: scale/scale/by-factor}":                                    {40, 200, 50},
		"{disable: 'scale/scale/by-factor[weight]'}":                          {40, 200, 50},
		"{disable: 'scale/scale[weight]'}":                                    {40, 200, 50},
		"{disable: 'cap/cap/most[price]'}":                                    {40, 600, 70},
		"{disable: 'cap/cap/most[price]'}, {disable: 'cap/cap/most[weight]'}": {40, 600, 70},
		"{disable: 'cap/cap[price]'}, {params: {most.weight: 300}}":           {40, 300, 70},
		"{params: {most.price: 30}}":                                          {30, 600, 30},
		"{params: {scale.factor.weight: 4}}":                                  {40, 800, 50},
		"{params: {factor.weight: 4}}":                                        {40, 800, 50},
		"{disable: cap/cap/most}, {after: cap/cap, rule: {name: one, set: {'now[measure]': 'now[measure] * 2'}, when: measure == 'price'}}": {80, 600, 140},
	} {
		t.Run(change, func(t *testing.T) {
			book, err := measuredBook(overlay("mine", "  change: ["+change+"]\n"))
			require.NoError(t, err)
			got := book.For(document.Subject{})
			require.NoError(t, got.Err)
			f, _ := adjusted(t, got.Plan)
			require.Equal(t, want, amounts(f))
			require.NotEqual(t, book.Default().Digest(), got.Plan.Digest())
			require.NotEmpty(t, engine.Diff(book.Default(), got.Plan))

			var rendered strings.Builder
			require.NoError(t, got.Plan.Render(&rendered))
			again, err := bookOf(rendered.String())
			require.NoError(t, err, rendered.String())
			f, _ = adjusted(t, again.Default())
			require.Equal(t, want, amounts(f), "what is shown does the same")
		})
	}
}

func TestSharedParamAffectsEveryRuleThatReadsIt(t *testing.T) {
	book, err := measuredBook(overlay("mine", "  change: [{params: {most.weight: 10}}]\n"))
	require.NoError(t, err)
	plan := book.For(document.Subject{}).Plan
	f, _ := adjusted(t, plan)
	require.Equal(t, []int64{40, 10, 50}, amounts(f))
	facts := shipPoint.NewFacts().Set("customer", customerSchema.New()).Set("lines", lang.Records([]*lang.Record{lineSchema.New().SetInt("weight", 11)}))
	require.Equal(t, "ship/some", plan.Decide("order.ship", facts, nil).Rule)
	require.Equal(t, "default", book.Default().Decide("order.ship", facts, nil).Rule)
	require.Equal(t, []string{"param most.weight 900 → 10"}, engine.Diff(book.Default(), plan))
	library, err := libraryOf(measured)
	require.NoError(t, err)
	refs := library.Params()
	require.Equal(t, []string{"most.price", "most.weight", "step", "scale.factor.price", "scale.factor.weight"}, inWords(refs, func(p document.ParamRef) string { return p.Key }))
	require.Equal(t, []string{"cap", "ship"}, inWords(refs[1].RuleSets, func(s *document.RuleSet) string { return s.Name.Value }))
	require.Equal(t, "Most weight of a line", refs[1].Param.Description)
}

func TestOverlaysConflictPerAxisValue(t *testing.T) {
	_, err := measuredBook(overlay("a", "  change: [{disable: 'cap/cap/most[price]'}]\n"), overlay("b", "  change: [{disable: 'cap/cap/most[weight]'}]\n"))
	require.NoError(t, err)
	_, err = measuredBook(overlay("a", "  change: [{disable: 'cap/cap/most[price]'}]\n"), overlay("b", "  change: [{disable: 'cap/cap/most[price]'}]\n"))
	require.ErrorContains(t, err, "RuleOverlay b: it changes cap/cap/most[price], and so does RuleOverlay a at o.yaml:6:22")
	_, err = measuredBook(overlay("a", "  change: [{disable: 'cap/cap/most[price]'}]\n"), overlay("b", "  change: [{disable: cap/cap/most}]\n"))
	require.ErrorContains(t, err, "RuleOverlay b: it changes cap/cap/most")
}

func TestRuleSetAtAppliesToItsValidations(t *testing.T) {
	judge := validateRules(t, `
  at: "{lines,gifts}[*]"
  validations:
  - {name: named, expression: has(self.name), message: give it a name}
  - {name: whole, at: "lines[*]", expression: size(self) == 1, message: only a name}
`, compile.Options{})
	got := judge(engine.Judged{Object: map[string]any{"lines": []any{map[string]any{}}, "gifts": []any{map[string]any{}}}})
	require.Equal(t, []string{"s/named lines[0]", "s/named gifts[0]", "s/whole lines[0]"}, inWords(got, func(v engine.Violation) string { return v.Rule + " " + v.Path }))

	for body, want := range map[string]string{
		"  at: lines[*]\n  stages: [{name: a, rules: [{name: r, note: x}]}]\n":                                                          "s.yaml:7:7: RuleSet s: spec.at belongs to validations",
		"  at: a.{b,c,d,e,f,g,h,i,j,k,l}\n  validations: [{name: a, at: '.{b,c,d,e,f,g,h,i,j,k,l}', expression: 'true', message: x}]\n": "s.yaml:8:31: RuleSet s: `at` names more than 100 places; split the validation",
		"  validations: [{name: a, at: .name, expression: 'true', message: x}]\n":                                                       `s.yaml:7:31: RuleSet s: at ".name" begins with a dot, and there is no spec.at that it could be below`,
		"  at: 'lines[*]'\n  validations: [{name: a, at: '.{name,price}', expression: 'true', message: x}]\n":                           `s.yaml:8:31: RuleSet s@1.0.0, validation a: there is no "lines[*].name"`,
	} {
		_, err := compileOne("order.validate", body, compile.Options{})
		require.ErrorContains(t, err, want)
	}
}

// FuzzOverlaysOnAxesNeverPanic merges fuzzed overlays into rules with an axis.
func FuzzOverlaysOnAxesNeverPanic(f *testing.F) {
	for _, change := range []string{
		"{disable: 'cap/cap/most[price]'}, {disable: 'cap/cap/most[weight]'}, {disable: cap/cap}", "{disable: 'cap[price]'}", "{disable: 'valid/positive[price]'}",
		"{replace: 'cap/cap[price]', stage: {rules: []}}", "{params: {most.price: 1, step: 2, most: 3, scale.factor.weight: x}}", "{disable: 'cap/cap/most[]'}", "{disable: '[price]'}",
		"{after: cap/cap, rule: {name: r, without: [price], unset: 'now[measure]'}}", "{replace: scale/scale, stage: {each: [measure, line, measure], rules: [{name: r, note: '{measure}'}]}}",
	} {
		f.Add("  change: ["+change+"]\n", "  mode: Audit\n  change: [{disable: 'scale/scale/by-factor[weight]'}]\n")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		b, err := measuredBook(overlay("one", first), overlay("two", second))
		if err != nil {
			return
		}
		got := b.For(document.Subject{})
		got.Plan.RunStages("order.adjust", order(100), &engine.Trace{})
		got.Plan.Validations("order.validate")
		engine.Diff(b.Default(), got.Plan)
		require.NoError(t, got.Plan.Render(io.Discard))
	})
}

func TestCoverageCountsEachAxisValue(t *testing.T) {
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"base.yaml": {Data: []byte(measured)}}})
	require.NoError(t, err)
	plan, err := compile.Compile(lib, shop(), compile.Options{Pipeline: "p"})
	require.NoError(t, err)
	coverage := engine.NewCoverage()
	coverage.Ran(plan, "order.adjust")
	f := order(70)
	require.Empty(t, plan.RunStages("order.adjust", f, &engine.Trace{Coverage: coverage}))
	report := coverage.Report()
	var unreached []string
	for _, u := range report.Unreached {
		unreached = append(unreached, u.Path+": "+u.What)
	}
	require.Equal(t, []string{"cap/cap/most[price]: its condition was never false", "cap/cap/most[weight]: it never ran",
		"scale/scale[price]: its condition was never false", "scale/scale[weight]: its condition was never true",
		"scale/scale/by-factor[price]: its condition was never false", "scale/scale/by-factor[weight]: it never ran", "scale/scale/by-factor[weight]: its condition was never false"}, unreached)
}
