package engine

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// measured is a policy for price and weight at once.
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

func measuredBook(overlays ...string) (*Rulebook, error) { return bookOf(measured, overlays...) }

func bookOf(rules string, overlays ...string) (*Rulebook, error) {
	lib, err := Loader{}.Load(Layer{FS: fstest.MapFS{"base.yaml": {Data: []byte(rules)}}},
		Layer{FS: fstest.MapFS{"o.yaml": {Data: []byte(strings.Join(overlays, ""))}}})
	if err != nil {
		return nil, err
	}
	return NewRulebook(lib, shop(), RulebookOptions{Pipeline: "p"})
}

// adjusted runs the rules over two lines, of which one has no weight.
func adjusted(t *testing.T, plan *Plan) (f *Facts, trace *Trace) {
	t.Helper()
	f, trace = order(40, 70), &Trace{}
	line(f, 0).SetInt("weight", 200)
	require.Empty(t, plan.RunStages("order.adjust", f, trace))
	return f, trace
}

func amounts(f *Facts) (out []int64) {
	for i := range f.items[0] {
		for _, field := range []string{"price", "weight"} {
			if n, ok := line(f, i).Int(field); ok {
				out = append(out, n)
			}
		}
	}
	return out
}

func TestAStageRunsForEachValueOfItsAxis(t *testing.T) {
	book, err := measuredBook()
	require.NoError(t, err)
	require.Empty(t, book.Findings())
	f, trace := adjusted(t, book.Default())
	require.Equal(t, []int64{40, 600, 50}, amounts(f))
	require.Equal(t, []string{"price scaled", "weight scaled"}, f.items[0][0].Notes)
	fields := namesOf(trace.Steps(), func(s Step) string { return s.Path() + " " + s.Item + " " + s.Field + " " + s.To })
	require.Equal(t, []string{"scale/scale/by-factor line-0  ", "scale/scale/by-factor line-1  ", "scale/scale/by-factor line-0 now.weight 600g", "cap/cap/most line-1 now.price 50c"}, fields)
	interpreted, _ := adjusted(t, book.Default().Interpreted())
	require.Equal(t, amounts(f), amounts(interpreted))
}

func TestAStageGoesThroughSeveralScopes(t *testing.T) {
	r := shop()
	r.AddPoint(&Point{Name: "parcel", Kind: StagePoint, Scopes: []Scope{
		{Name: "box", Vars: []Var{{Name: "now", Type: RecordOf(lineSchema), Writable: true}}},
		{Name: "whole", Vars: []Var{{Name: "now", Type: RecordOf(lineSchema), Writable: true}, {Name: "fee", Type: IntOf("cents")}}}}})
	const body = "  stages: [{name: a, each: [box, whole, measure], rules: [{name: twice, when: measure in now, set: {'now[measure]': 'now[measure] * 2'}}]}]\n"
	plan, err := compileAt(r, "parcel", body, CompileOptions{})
	require.NoError(t, err)
	f := r.points["parcel"].NewFacts()
	box, whole := lineSchema.New().SetInt("price", 1).SetInt("weight", 2), lineSchema.New().SetInt("weight", 3)
	f.AddItem("box", "b").Set("now", box)
	f.AddItem("whole", "w").Set("now", whole)
	require.Empty(t, plan.RunStages("parcel", f, nil))
	require.Equal(t, []any{int64(2), int64(4), int64(6)}, []any{box.cells[0].val().Value(), box.cells[2].val().Value(), whole.cells[2].val().Value()})
	_, err = compileAt(r, "parcel", strings.Replace(body, "measure in now", "fee > cents('1c')", 1), CompileOptions{})
	require.ErrorContains(t, err, "undeclared reference to 'fee'")
}

func TestAllValuesOfAnAxisCanBeAskedFor(t *testing.T) {
	book, err := measuredBook()
	require.NoError(t, err)
	decide := func(lines ...*Record) string {
		facts := shipPoint.NewFacts().Set("customer", customerSchema.New()).Set("lines", Records(lines))
		v := book.Default().Decide("order.ship", facts, nil)
		require.Equal(t, v, book.Default().Interpreted().Decide("order.ship", facts, nil))
		return v.Rule
	}
	require.Equal(t, "ship/all", decide(lineSchema.New().SetInt("price", 1).SetInt("weight", 1)))
	require.Equal(t, "ship/some", decide(lineSchema.New().SetInt("weight", 901)))
	require.Equal(t, "default", decide(lineSchema.New().SetInt("weight", 900)))
	require.Equal(t, "ship/sum", decide(lineSchema.New().SetInt("price", 1), lineSchema.New().SetInt("price", 0), lineSchema.New().SetInt("weight", 1)))
}

func TestAValidationStandsForEachValueOfItsAxis(t *testing.T) {
	book, err := measuredBook()
	require.NoError(t, err)
	object := map[string]any{"lines": []any{map[string]any{"price": 0, "weight": 1}}, "gifts": []any{map[string]any{"weight": -1}}}
	got := book.Default().Validate("order.validate", Judged{Object: object}, nil)
	require.Equal(t, []string{"valid/positive lines[0].line['price'] price is 0", "valid/positive gifts[0].line['weight'] weight is -1"},
		namesOf(got, func(v Violation) string { return v.Rule + " " + v.Path + " " + v.Message }))
	infos := book.Default().Validations("order.validate")
	require.Equal(t, []string{"valid/positive", "valid/positive"}, namesOf(infos, func(i ValidationInfo) string { return i.Rule }))
	v := infos[1].Validation
	require.Equal(t, []string{"'weight' in self", "self['weight'] > 0", "'weight' + ' is ' + string(self['weight'])", "weight must be above 0", ".line['weight']"},
		[]string{v.When.Value, v.Expression.Value, v.MessageExpression.Value, v.Message.Value, v.FieldPath.Value}, "API servers know no axes")
}

func TestAnAxisIsSpeltAsAPIServersTakeIt(t *testing.T) {
	weight := &axisValue{&Axis{Name: "measure"}, "weight"}
	for expression, want := range map[string]string{
		"self.most[measure] > 0":                "self.most['weight'] > 0",
		"self.?most[?measure].hasValue()":       "self.?most.?weight.hasValue()", // objects have no index
		"self.?most[?measure + 's'].hasValue()": "self.?most[?'weight' + 's'].hasValue()",
		"measure in self && 'measure' in self":  "'weight' in self && 'measure' in self",
	} {
		require.Equal(t, want, spelt(expression, weight))
	}
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
			got := book.For(Subject{})
			require.NoError(t, got.Err)
			f, _ := adjusted(t, got.Plan)
			require.Equal(t, want, amounts(f))
			require.NotEqual(t, book.Default().Digest(), got.Plan.Digest())
			require.NotEmpty(t, Diff(book.Default(), got.Plan))

			var rendered strings.Builder
			require.NoError(t, got.Plan.Render(&rendered))
			again, err := bookOf(rendered.String())
			require.NoError(t, err, rendered.String())
			f, _ = adjusted(t, again.Default())
			require.Equal(t, want, amounts(f), "what is shown does the same")
		})
	}
}

func TestASharedParamMovesEveryRuleThatReadsIt(t *testing.T) {
	book, err := measuredBook(overlay("mine", "  change: [{params: {most.weight: 10}}]\n"))
	require.NoError(t, err)
	plan := book.For(Subject{}).Plan
	f, _ := adjusted(t, plan)
	require.Equal(t, []int64{40, 10, 50}, amounts(f))
	facts := shipPoint.NewFacts().Set("customer", customerSchema.New()).Set("lines", Records([]*Record{lineSchema.New().SetInt("weight", 11)}))
	require.Equal(t, "ship/some", plan.Decide("order.ship", facts, nil).Rule)
	require.Equal(t, "default", book.Default().Decide("order.ship", facts, nil).Rule)
	require.Equal(t, []string{"param most.weight 900 → 10"}, Diff(book.Default(), plan))
	refs := book.library.Params()
	require.Equal(t, []string{"most.price", "most.weight", "step", "scale.factor.price", "scale.factor.weight"}, namesOf(refs, func(p ParamRef) string { return p.Key }))
	require.Equal(t, []string{"cap", "ship"}, namesOf(refs[1].RuleSets, func(s *RuleSet) string { return s.Name.Value }))
	require.Equal(t, "Most weight of a line", refs[1].Param.Description)
}

func TestOneOverlayMayTakeOneValueAndAnotherTheOther(t *testing.T) {
	_, err := measuredBook(overlay("a", "  change: [{disable: 'cap/cap/most[price]'}]\n"), overlay("b", "  change: [{disable: 'cap/cap/most[weight]'}]\n"))
	require.NoError(t, err)
	_, err = measuredBook(overlay("a", "  change: [{disable: 'cap/cap/most[price]'}]\n"), overlay("b", "  change: [{disable: 'cap/cap/most[price]'}]\n"))
	require.ErrorContains(t, err, "RuleOverlay b: it changes cap/cap/most[price], and so does RuleOverlay a at o.yaml:6:22")
	_, err = measuredBook(overlay("a", "  change: [{disable: 'cap/cap/most[price]'}]\n"), overlay("b", "  change: [{disable: cap/cap/most}]\n"))
	require.ErrorContains(t, err, "RuleOverlay b: it changes cap/cap/most")
}

func TestFaultsOfAxesAreToldInPlace(t *testing.T) {
	stage := func(each, rest string) string {
		return "  stages:\n  - name: a\n    each: " + each + "\n    " + rest + "\n"
	}
	for name, tt := range map[string]struct{ body, want string }{
		"an axis that nobody declared":        {stage("[line, size]", "rules: [{name: r, note: x}]"), `s.yaml:9:18: RuleSet s@1.0.0, stage a: point order.adjust has no scope "size"; known: line, measure`},
		"two axes":                            {stage("[measure, measure]", "rules: [{name: r, note: x}]"), "s.yaml:9:21: RuleSet s@1.0.0, stage a: measure stands in each twice"},
		"a scope twice":                       {stage("[line, line]", "rules: [{name: r, note: x}]"), "s.yaml:9:18: RuleSet s@1.0.0, stage a: line stands in each twice"},
		"a field that all values write":       {stage("[line, measure]", "rules: [{name: r, set: {now.price: cents('1c')}}]"), "s.yaml:10:29: RuleSet s@1.0.0, stage a, rule r: now.price would be written once for each measure, and the last would win; write a field of each, such as now[measure]"},
		"a value that a record does not have": {stage("[line, measure]", "rules: [{name: r, set: {'now[measure]': 'customer[measure]'}}]"), "s.yaml:10:54: RuleSet s@1.0.0, stage a, rule r, set now[measure]: undefined field 'price'"},
		"a path of another axis":              {stage("line", "rules: [{name: r, set: {'now[measure]': cents('1c')}}]"), `s.yaml:10:29: RuleSet s@1.0.0, stage a, rule r: "now[measure]": the stage does not go through the values of measure; name it in each`},
		"a path of no axis":                   {stage("line", "rules: [{name: r, set: {'now[x]': cents('1c')}}]"), `"now[x]": brackets take the name of an axis; known: measure`},
		"a name outside its stage":            {stage("line", "rules: [{name: r, when: measure == 'price', set: {now.price: cents('1c')}}]"), "s.yaml:10:29: RuleSet s@1.0.0, stage a, rule r, when: undeclared reference to 'measure': it is an axis; name it in each, as in each: [line, measure], or ask measures.exists(m, …)"},
		"has with an axis":                    {stage("[line, measure]", "rules: [{name: r, when: 'has(now[measure])', set: {'now[measure]': 1}}]"), "s.yaml:10:37: RuleSet s@1.0.0, stage a, rule r, when: invalid argument to has() macro; of a field that an axis names, ask e.g. resource in policy.minAllowed"},
		"a variable of that name":             {stage("[line, measure]", "variables: {measure: '1'}\n    rules: [{name: r, set: {'now[measure]': 1}}]"), `the name "measure" is taken by an axis; choose another`},
		"a loop's variable of that name":      {stage("[line, measure]", "when: customer.tags.exists(measure, measure == 'x')\n    rules: [{name: r, set: {'now[measure]': 1}}]"), "s.yaml:10:31: RuleSet s@1.0.0, stage a, when: measure is the name of an axis here; call the variable something else"},
		"another macro":                       {stage("line", "when: measures.exists_one(m, m in now)\n    rules: [{name: r, note: x}]"), "s.yaml:10:30: RuleSet s@1.0.0, stage a, when: measures takes exists, all and map with one expression"},
		"units that do not match for a value": {stage("[line, measure]", "rules: [{name: r, set: {'now[measure]': now.price}}]"), "set now[measure]: the expression gives int (cents), the field holds int (grams)"},
		"without what it has not":             {stage("[line, measure]", "without: [size]\n    rules: [{name: r, set: {'now[measure]': 1}}]"), `s.yaml:10:15: RuleSet s@1.0.0, stage a: measure has no value "size"; it has price, weight`},
		"without an axis":                     {stage("line", "without: [price]\n    rules: [{name: r, note: x}]"), "s.yaml:10:15: RuleSet s@1.0.0, stage a: without belongs to what names an axis"},
		"a param of an axis that nobody has":  {"  params: [{name: x, each: size, type: {s: int, m: int}}]\n" + stage("line", "when: params.x.s > 0\n    rules: [{name: r, note: x}]"), "s.yaml:7:19: RuleSet s@1.0.0: param x has values for s, m, and no axis has just these; known: measure with price, weight"},
		"a param with one value too few":      {"  params: [{name: x, each: measure, type: {price: int, weight: int}, default: {price: 1}}]\n" + stage("line", "rules: [{name: r, note: x}]"), "s.yaml:7:43: RuleSet s: type is given for price, weight, and elsewhere for price: give it for the same values in the same order"},
		"a param with values and no axis":     {"  params: [{name: x, type: {price: int, weight: int}}]\n" + stage("line", "rules: [{name: r, note: x}]"), "type is one value; name the axis that it has several for, as in each: resource"},
		"a param with an axis and no values":  {"  params: [{name: x, each: measure, type: int}]\n" + stage("line", "rules: [{name: r, note: x}]"), "s.yaml:7:28: RuleSet s: nothing of param x is given for each measure"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compileOne("order.adjust", tt.body, CompileOptions{})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestFaultsOfSharedParamsAndAddressesAreToldInPlace(t *testing.T) {
	change := func(from, to string) string { return strings.Replace(measured, from, to, 1) }
	change1 := func(c string) string { return overlay("mine", "  change: ["+c+"]\n") }
	for name, tt := range map[string]struct{ rules, overlay, want string }{
		"a name declared twice":               {change("{name: factor, each", "{name: step, type: int}\n  - {name: factor, each"), "", "base.yaml:23:12: RuleSet scale@1.0.0: param step is declared by Pipeline p@1.0.0 at base.yaml:13:12 too, for all rule sets"},
		"a flag declared twice":               {strings.Replace(change("default: 2}", "default: 2, flag: f}"), "{name: factor, each", "{name: fee, type: int, flag: f}\n  - {name: factor, each", 1), "", "base.yaml:23:12: RuleSet scale@1.0.0: param fee has the flag --f, and so has one of Pipeline p@1.0.0 at base.yaml:13:12"},
		"a rule set called like a param":      {strings.ReplaceAll(strings.ReplaceAll(measured, "name: cap}", "name: most}"), "cap@1", "most@1"), "", "Pipeline p@1.0.0 declares a param of the same name at base.yaml:8:11, so that most.… could mean either"},
		"a param that nobody declared":        {change("params.step", "params.steps"), "", "undefined field 'steps'; params/ship has most"},
		"a brace that is not closed":          {change("{lines,gifts}[*]", "{lines,gifts[*]"), "", `base.yaml:70:9: RuleSet valid: at "{lines,gifts[*]": the brace behind "" is not closed`},
		"a brace that is not opened":          {change("{lines,gifts}[*]", "lines}[*]"), "", "a brace is closed that was not opened"},
		"an empty place":                      {change("{lines,gifts}[*]", "{lines,}[*]"), "", "names nothing; write it as {a,b}"},
		"an axis of a validation":             {change("axes: [measure]", "axes: [size]"), "", `base.yaml:69:12: RuleSet valid@1.0.0, validation positive: no axis "size"; known: measure`},
		"an expansion that does not exist":    {measured, change1("{disable: 'cap/cap/most[size]'}"), `o.yaml:6:22: RuleOverlay mine: cap/cap/most has no value "size" of measure; it has price, weight`},
		"an expansion of what has no axis":    {measured, change1("{disable: 'ship/some[price]'}"), "ship/some stands for no axis, so it has no value \"price\"; write ship/some"},
		"an expansion that is gone":           {measured, change1("{disable: 'cap/cap/most[price]'}, {disable: 'cap/cap/most[price]'}"), `"cap/cap/most[price]" was disabled by RuleOverlay mine`},
		"an expansion replaced":               {measured, change1("{replace: 'cap/cap/most[price]', rule: {note: x}}"), "one value of an axis can be disabled, but not be replaced"},
		"a shared param by a rule set's name": {measured, change1("{params: {cap.most.price: 1}}"), "most.price is shared by all rule sets: write it without cap"},
		"a shared param without its value":    {measured, change1("{params: {most: 1}}"), `pipeline p@1.0.0 has no parameter "most"; it has most.price, most.weight, step, scale.factor.price, scale.factor.weight`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bookOf(tt.rules, tt.overlay)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestASharedParamThatNothingReadsIsAFinding(t *testing.T) {
	book, err := bookOf(strings.Replace(measured, "  - {name: step", "  - {name: idle, type: int}\n  - {name: step", 1))
	require.NoError(t, err)
	require.Len(t, book.Findings(), 1)
	require.Equal(t, "base.yaml:13:12: Pipeline p@1.0.0: param idle is never read", strings.SplitN(book.Findings()[0].Error(), "\n", 2)[0])
}

func TestPlacesOfARuleSetHoldForItsValidations(t *testing.T) {
	judge := validateRules(t, `
  at: "{lines,gifts}[*]"
  validations:
  - {name: named, expression: has(self.name), message: give it a name}
  - {name: whole, at: "lines[*]", expression: size(self) == 1, message: only a name}
`, CompileOptions{})
	got := judge(Judged{Object: map[string]any{"lines": []any{map[string]any{}}, "gifts": []any{map[string]any{}}}})
	require.Equal(t, []string{"s/named lines[0]", "s/named gifts[0]", "s/whole lines[0]"}, namesOf(got, func(v Violation) string { return v.Rule + " " + v.Path }))

	for body, want := range map[string]string{
		"  at: lines[*]\n  stages: [{name: a, rules: [{name: r, note: x}]}]\n":                                "s.yaml:7:7: RuleSet s: spec.at belongs to validations",
		"  validations: [{name: a, at: .name, expression: 'true', message: x}]\n":                             `s.yaml:7:31: RuleSet s: at ".name" begins with a dot, and there is no spec.at that it could be below`,
		"  at: 'lines[*]'\n  validations: [{name: a, at: '.{name,price}', expression: 'true', message: x}]\n": `s.yaml:8:31: RuleSet s@1.0.0, validation a: there is no "lines[*].name"`,
	} {
		_, err := compileOne("order.validate", body, CompileOptions{})
		require.ErrorContains(t, err, want)
	}
}
