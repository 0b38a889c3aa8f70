package engine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/compile"
)

func TestAxisFaultsAreReportedInPlace(t *testing.T) {
	stage := func(each, rest string) string {
		return "  stages:\n  - name: a\n    each: " + each + "\n    " + rest + "\n"
	}
	for name, tt := range map[string]struct{ body, want string }{
		"an axis that nobody declared":                      {stage("[line, size]", "rules: [{name: r, note: x}]"), `s.yaml:9:18: RuleSet s@1.0.0, stage a: point order.adjust has no scope "size"; known: line, measure`},
		"two axes":                                          {stage("[measure, measure]", "rules: [{name: r, note: x}]"), "s.yaml:9:21: RuleSet s@1.0.0, stage a: measure stands in each twice"},
		"a scope twice":                                     {stage("[line, line]", "rules: [{name: r, note: x}]"), "s.yaml:9:18: RuleSet s@1.0.0, stage a: line stands in each twice"},
		"a field that all values write":                     {stage("[line, measure]", "rules: [{name: r, set: {now.price: cents('1c')}}]"), "s.yaml:10:29: RuleSet s@1.0.0, stage a, rule r: now.price would be written once for each measure, and the last would win; write a field of each, such as now[measure]"},
		"a value that a record does not have":               {stage("[line, measure]", "rules: [{name: r, set: {'now[measure]': 'customer[measure]'}}]"), "s.yaml:10:54: RuleSet s@1.0.0, stage a, rule r, set now[measure]: undefined field 'price'"},
		"a path of another axis":                            {stage("line", "rules: [{name: r, set: {'now[measure]': cents('1c')}}]"), `s.yaml:10:29: RuleSet s@1.0.0, stage a, rule r: "now[measure]": the stage does not go through the values of measure; name it in each`},
		"a path of no axis":                                 {stage("line", "rules: [{name: r, set: {'now[x]': cents('1c')}}]"), `"now[x]": brackets take the name of an axis; known: measure`},
		"a name outside its stage":                          {stage("line", "rules: [{name: r, when: measure == 'price', set: {now.price: cents('1c')}}]"), "s.yaml:10:29: RuleSet s@1.0.0, stage a, rule r, when: undeclared reference to 'measure': it is an axis; name it in each, as in each: [line, measure], or ask measures.exists(m, …)"},
		"a value without quotes":                            {stage("[line, measure]", "rules: [{name: r, when: measure == price, note: x}]"), "s.yaml:10:40: RuleSet s@1.0.0, stage a, rule r, when: undeclared reference to 'price': for the measure, write 'price', in quotes; known here: count, customer, gates, item, measure, now, total"},
		"has with an axis":                                  {stage("[line, measure]", "rules: [{name: r, when: 'has(now[measure])', set: {'now[measure]': 1}}]"), "s.yaml:10:37: RuleSet s@1.0.0, stage a, rule r, when: invalid argument to has() macro; of a field that an axis names, ask e.g. resource in policy.minAllowed"},
		"a variable of that name":                           {stage("[line, measure]", "variables: {measure: '1'}\n    rules: [{name: r, set: {'now[measure]': 1}}]"), `the name "measure" is taken by an axis; choose another`},
		"a loop's variable of that name":                    {stage("[line, measure]", "when: customer.tags.exists(measure, measure == 'x')\n    rules: [{name: r, set: {'now[measure]': 1}}]"), "s.yaml:10:31: RuleSet s@1.0.0, stage a, when: measure is the name of an axis here; call the variable something else"},
		"another macro":                                     {stage("line", "when: measures.exists_one(m, m in now)\n    rules: [{name: r, note: x}]"), "s.yaml:10:30: RuleSet s@1.0.0, stage a, when: measures takes exists, all and map with one expression"},
		"units that do not match for a value":               {stage("[line, measure]", "rules: [{name: r, set: {'now[measure]': now.price}}]"), "set now[measure]: the expression gives int (cents), the field holds int (grams)"},
		"without what it has not":                           {stage("[line, measure]", "without: [size]\n    rules: [{name: r, set: {'now[measure]': 1}}]"), `s.yaml:10:15: RuleSet s@1.0.0, stage a: measure has no value "size"; it has price, weight`},
		"without an axis":                                   {stage("line", "without: [price]\n    rules: [{name: r, note: x}]"), "s.yaml:10:15: RuleSet s@1.0.0, stage a: `without` is only valid beside `each`"},
		"a param of an axis that nobody has":                {"  params: [{name: x, each: size, type: {s: int, m: int}}]\n" + stage("line", "when: params.x.s > 0\n    rules: [{name: r, note: x}]"), `s.yaml:7:28: RuleSet s@1.0.0, param x: no axis "size"; known: measure`},
		"a param of an axis that nobody has, with defaults": {"  params: [{name: x, each: measure, type: int, default: {s: 1, m: 2}}]\n" + stage("line", "when: params.x.s > 0\n    rules: [{name: r, note: x}]"), "s.yaml:7:19: RuleSet s@1.0.0: param x has values for s, m, and no axis has just these; known: measure with price, weight"},
		"a param that names another axis":                   {"  params: [{name: x, each: mesure, type: int, default: {price: 1, weight: 2}}]\n" + stage("line", "when: params.x.price > 0\n    rules: [{name: r, note: x}]"), `s.yaml:7:28: RuleSet s@1.0.0, param x: no axis "mesure"; known: measure`},
		"a param with one value and with several":           {"  params: [{name: x, type: int, default: 1}, {name: x.price, type: int, default: 1}, {name: x.weight, type: int, default: 1}]\n" + stage("line", "when: params.x.price > 0\n    rules: [{name: r, note: x}]"), "param x has one value, and also one for each value of an axis"},
		"a param with one value too few":                    {"  params: [{name: x, each: measure, type: {price: int, weight: int}, default: {price: 1}}]\n" + stage("line", "rules: [{name: r, note: x}]"), "s.yaml:7:43: RuleSet s: type is given for price, weight, and elsewhere for price: give it for the same values in the same order"},
		"a param with values and no axis":                   {"  params: [{name: x, type: {price: int, weight: int}}]\n" + stage("line", "rules: [{name: r, note: x}]"), "type is one value; name the axis that it has several for, as in each: resource"},
		"a param with an axis and no values":                {"  params: [{name: x, each: measure, type: int}]\n" + stage("line", "rules: [{name: r, note: x}]"), "s.yaml:7:28: RuleSet s: nothing of param x is given for each measure"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compileOne("order.adjust", tt.body, compile.Options{})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestSharedParamAndAddressFaultsAreReportedInPlace(t *testing.T) {
	change := func(from, to string) string { return strings.Replace(measured, from, to, 1) }
	change1 := func(c string) string { return overlay("mine", "  change: ["+c+"]\n") }
	for name, tt := range map[string]struct{ rules, overlay, want string }{
		"a name declared twice":                     {change("{name: factor, each", "{name: step, type: int}\n  - {name: factor, each"), "", "base.yaml:23:12: RuleSet scale@1.0.0: param step is declared by Pipeline p@1.0.0 at base.yaml:13:12 too, for all rule sets"},
		"a name with several values declared twice": {change("{name: factor, each: measure, type: int, default: {price: 1, weight: 3}}", "{name: factor, each: measure, type: int, default: {price: 1, weight: 3}}\n  - {name: most, each: measure, type: {price: cents, weight: grams}, default: {price: 1, weight: 3}}"), "", "RuleSet scale@1.0.0: param most is declared by Pipeline p@1.0.0 at"},
		"one of several values declared elsewhere":  {change("{name: factor, each: measure, type: int, default: {price: 1, weight: 3}}", "{name: factor, each: measure, type: int, default: {price: 1, weight: 3}}\n  - {name: step.price, type: int, default: 1}"), "", "param step is declared by Pipeline p@1.0.0 at"},
		"a flag declared twice":                     {strings.Replace(change("default: 2}", "default: 2, flag: f}"), "{name: factor, each", "{name: fee, type: int, flag: f}\n  - {name: factor, each", 1), "", "base.yaml:23:12: RuleSet scale@1.0.0: param fee has the flag --f, and so has one of Pipeline p@1.0.0 at base.yaml:13:12"},
		"a rule set called like a param":            {strings.ReplaceAll(strings.ReplaceAll(measured, "name: cap}", "name: most}"), "cap@1", "most@1"), "", "Pipeline p@1.0.0 declares a param of the same name at base.yaml:8:11, so that most.… could mean either"},
		"a param that nobody declared":              {change("params.step", "params.steps"), "", "undefined field 'steps'; params/ship has most"},
		"a brace that is not closed":                {change("{lines,gifts}[*]", "{lines,gifts[*]"), "", `base.yaml:70:9: RuleSet valid: at "{lines,gifts[*]": the brace behind "" is not closed`},
		"a brace that is not opened":                {change("{lines,gifts}[*]", "lines}[*]"), "", "a brace is closed that was not opened"},
		"an empty place":                            {change("{lines,gifts}[*]", "{lines,}[*]"), "", "names nothing; write it as {a,b}"},
		"an axis of a validation":                   {change("axes: [measure]", "axes: [size]"), "", `base.yaml:69:12: RuleSet valid@1.0.0, validation positive: no axis "size"; known: measure`},
		"an expansion that does not exist":          {measured, change1("{disable: 'cap/cap/most[size]'}"), `o.yaml:6:22: RuleOverlay mine: cap/cap/most has no value "size" of measure; it has price, weight`},
		"an expansion of what has no axis":          {measured, change1("{disable: 'ship/some[price]'}"), "ship/some stands for no axis, so it has no value \"price\"; write ship/some"},
		"an expansion that is gone":                 {measured, change1("{disable: 'cap/cap/most[price]'}, {disable: 'cap/cap/most[price]'}"), `"cap/cap/most[price]" was disabled by RuleOverlay mine`},
		"an expansion replaced":                     {measured, change1("{replace: 'cap/cap/most[price]', rule: {note: x}}"), "one value of an axis can be disabled, but not be replaced"},
		"a shared param by a rule set's name":       {measured, change1("{params: {cap.most.price: 1}}"), "most.price is shared by all rule sets: write it without cap"},
		"a shared param without its value":          {measured, change1("{params: {most: 1}}"), `pipeline p@1.0.0 has no parameter "most"; it has most.price, most.weight, step, scale.factor.price, scale.factor.weight`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bookOf(tt.rules, tt.overlay)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestUnreadSharedParamIsAFinding(t *testing.T) {
	book, err := bookOf(strings.Replace(measured, "  - {name: step", "  - {name: idle, type: int}\n  - {name: step", 1))
	require.NoError(t, err)
	require.Len(t, book.Findings(), 1)
	require.Equal(t, "base.yaml:13:12: Pipeline p@1.0.0: param idle is never read", strings.SplitN(book.Findings()[0].Error(), "\n", 2)[0])
}
