package engine_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/source"
)

// Line 7 of s.yaml is the first line of the body.
func TestAllFaultsAreReportedInPlace(t *testing.T) {
	const stage = "\n  stages:\n  - name: a\n    each: line\n"
	tests := []struct {
		name  string
		point string
		body  string
		want  []string
	}{
		{"a plain scalar", "order.adjust", stage + "    rules: [{name: r, set: {now.price: now.prize + 1}}]\n",
			[]string{"s.yaml:11:43: RuleSet s@1.0.0, stage a, rule r, set now.price: undefined field 'prize'"}},
		{"a quoted scalar", "order.adjust", stage + "    rules: [{name: r, when: \"'x' == item && nope\", set: {now.price: '1'}}]\n",
			[]string{"s.yaml:11:45: RuleSet s@1.0.0, stage a, rule r, when: undeclared reference to 'nope'"}},
		{"a folded block", "order.adjust", stage + "    when: >-\n      item == 'x'\n        || nope\n    rules: [{name: r, unset: [now.price]}]\n",
			[]string{"s.yaml:13:12: RuleSet s@1.0.0, stage a, when: undeclared reference to 'nope'"}},
		{"a literal block", "order.adjust", stage + "    when: |\n      item == 'x'\n        || nope\n    rules: [{name: r, unset: [now.price]}]\n",
			[]string{"s.yaml:13:12: RuleSet s@1.0.0, stage a, when: undeclared reference to 'nope'"}},
		{"a plain scalar over two lines", "order.adjust", stage + "    when: item == 'x'\n      || nope\n    rules: [{name: r, unset: [now.price]}]\n",
			[]string{"s.yaml:12:10: RuleSet s@1.0.0, stage a, when: undeclared reference to 'nope'"}},
		{"several faults", "order.adjust", stage + "    rules:\n    - {name: r, set: {now.price: \"'x'\"}}\n    - {name: q, when: now.price, set: {item: '1', total.price: cents(1)}}\n",
			[]string{
				"s.yaml:12:34: RuleSet s@1.0.0, stage a, rule r, set now.price: the expression gives string, the field holds int (cents)",
				"s.yaml:13:23: RuleSet s@1.0.0, stage a, rule q, when: the condition gives int, it must give bool",
				`s.yaml:13:40: RuleSet s@1.0.0, stage a, rule q: "item" cannot be set here; writable: now.price, now.before, now.weight, total.price, total.free`,
				"s.yaml:13:69: RuleSet s@1.0.0, stage a, rule q, set total.price: found no matching overload for 'cents' applied to '(int)'",
			}},
		{"an unknown scope", "order.adjust", "\n  stages:\n  - {name: a, each: lime, rules: [{name: r, note: x}]}\n",
			[]string{`s.yaml:9:21: RuleSet s@1.0.0, stage a: point order.adjust has no scope "lime"; known: line`}},
		{"what cannot be set, for each value", "order.adjust", "\n  stages:\n  - name: a\n    each: [line, measure]\n    rules: [{name: r, set: {nowx: '1'}}]\n",
			[]string{`s.yaml:11:29: RuleSet s@1.0.0, stage a, rule r: "nowx" cannot be set here; writable: now.price, now.before, now.weight, total.price, total.free`}},
		{"the only param, of no type, and what reads it", "order.adjust", "\n  params: [{name: x, type: centz}]" + stage + "    rules: [{name: r, when: params.x > 1, note: x}]\n",
			[]string{`s.yaml:8:19: RuleSet s@1.0.0: param x has type "centz"; known: int, double, bool, string, cents, grams`}},
		{"a param of no type beside others", "order.adjust", "\n  params: [{name: x, type: centz}, {name: y, type: int, default: 1}]" + stage +
			"    rules: [{name: r, when: params.x > params.y && now.x > params.z, note: x}]\n",
			[]string{`s.yaml:8:19: RuleSet s@1.0.0: param x has type "centz"`, "s.yaml:12:55: RuleSet s@1.0.0, stage a, rule r, when: undefined field 'x'", "undefined field 'z'; params/s has y"}},
		{"an unknown field on the left", "order.adjust", stage + "    rules: [{name: r, set: {now.cost: '1'}}]\n",
			[]string{`"now.cost": Line has no field "cost"`}},
		{"a variable that hides a fact", "order.adjust", stage + "    variables: {count: '1'}\n    rules: [{name: r, note: x}]\n",
			[]string{`s.yaml:11:17: RuleSet s@1.0.0, stage a, variable count: the name "count" is taken by a fact`}},
		{"a variable with a fault, and all that reads it", "order.adjust",
			stage + "    when: large && nope\n    variables: {large: count > 'x', heavy: large || other}\n    rules: [{name: r, when: heavy, set: {now.price: 'large ? now.price : now.prize'}}]\n",
			[]string{
				"s.yaml:11:20: RuleSet s@1.0.0, stage a, when: undeclared reference to 'nope'",
				"s.yaml:12:30: RuleSet s@1.0.0, stage a, variable large: operator > does not take (int, string); amounts are whole numbers, written as literals such as cents('250c')",
				"s.yaml:12:53: RuleSet s@1.0.0, stage a, variable heavy: undeclared reference to 'other'",
				"s.yaml:13:77: RuleSet s@1.0.0, stage a, rule r, set now.price: undefined field 'prize'",
			}},
		{"variables in a circle", "order.adjust", stage + "    variables: {c: b * 2, b: c}\n    rules: [{name: r, set: {now.price: c}}]\n",
			[]string{"s.yaml:11:20: RuleSet s@1.0.0, stage a, variable c: variables depend on each other in a cycle: c → b → c"}},
		{"no regular expressions", "order.adjust", stage + "    when: item.matches('x*')\n    rules: [{name: r, note: x}]\n",
			[]string{"undeclared reference to 'matches'"}},
		{"amounts of different units compared", "order.adjust", stage + "    rules: [{name: r, when: now.price > now.weight, note: x}]\n",
			[]string{"s.yaml:11:39: RuleSet s@1.0.0, stage a, rule r, when: cents meets grams here: they are counted in different units (cents and grams)"}},
		{"an amount set from another unit", "order.adjust", stage + "    rules: [{name: r, set: {now.price: now.weight + 1}}]\n",
			[]string{"s.yaml:11:40: RuleSet s@1.0.0, stage a, rule r, set now.price: the expression gives int (grams), the field holds int (cents)"}},
		{"units through variables, helpers and conditionals", "order.adjust", stage + "    variables: {w: \"max(now.weight, 5)\"}\n    rules: [{name: r, set: {now.price: \"item == 'x' ? cents('5') : w\"}}]\n",
			[]string{"cents meets grams here"}},
		{"a product of amounts", "order.adjust", stage + "    rules: [{name: r, when: now.price * now.weight > 7, note: x}]\n",
			[]string{"cents times grams is neither; use mulDivFloor"}},
		{"a relation without a common unit", "order.adjust", stage + "    rules: [{name: r, when: \"mulDivFloor(now.price, now.price, now.weight) > 7\", note: x}]\n",
			[]string{"leaves no unit"}},
		{"units inside a comprehension", "order.ship", "\n  decisions: [{name: d, when: \"sum(lines.map(l, l.price)) > sum(lines.map(l, l.weight))\", do: Ship}]\n",
			[]string{"cents meets grams here"}},
		{"an unknown outcome", "order.ship", "\n  decisions: [{name: d, do: Explode}]\n",
			[]string{`s.yaml:8:29: RuleSet s@1.0.0, decision d: do "Explode" is not an outcome of order.ship; use Ship, Hold, Ask`}},
		{"an until that is not a text", "order.ship", "\n  decisions: [{name: d, do: Hold, untilExpression: '1'}]\n",
			[]string{`s.yaml:8:52: RuleSet s@1.0.0, decision d: untilExpression gives int, it must give string`}},
		{"an unknown class", "order.ship", "\n  decisions: [{name: d, do: Hold, class: Odd}]\n",
			[]string{`s.yaml:8:42: RuleSet s@1.0.0, decision d: class "Odd" is not known at order.ship; use Fine, Late`}},
		{"a class where there is none", "order.ship", "\n  decisions: [{name: d, do: Ship, class: Fine}]\n",
			[]string{`s.yaml:8:42: RuleSet s@1.0.0, decision d: outcome Ship of order.ship has no classes; leave class out`}},
		{"the wrong body for a point", "order.ship", stage + "    rules: [{name: r, note: x}]\n",
			[]string{"point order.ship takes decisions"}},
		{"a conversion that fails in a branch that is never taken", "order.ship", "\n  decisions: [{name: d, when: \"true ? true : double('0x10') > 1.0\", do: Ship}]\n",
			[]string{`s.yaml:8:53: RuleSet s@1.0.0, decision d, when: double("0x10") fails, because the text is not a valid double`}},
		{"an unknown gate", "order.ship", "\n  gate: Coupons\n  decisions: [{name: d, do: Ship}]\n",
			[]string{`s.yaml:8:9: RuleSet s@1.0.0: no feature gate "Coupons"; known: Vouchers`}},
		{"a gated set is checked even while off", "order.ship", "\n  gate: Vouchers\n  decisions: [{name: d, when: nope, do: Ship}]\n",
			[]string{"undeclared reference to 'nope'"}},
		{"a param of an unknown type", "order.ship", "\n  params: [{name: p, type: euros}]\n  decisions: [{name: d, do: Ship}]\n",
			[]string{`param p has type "euros"; known: int, double, bool, string, cents, grams`}},
		{"a default that does not fit", "order.ship", "\n  params: [{name: p, type: cents, default: ten}]\n  decisions: [{name: d, do: Ship}]\n",
			[]string{`s.yaml:8:44: RuleSet s@1.0.0: param p: "ten" is not an amount`}},
		{"an unknown path to validate", "order.validate", "\n  validations: [{name: v, at: nowhere, enforce: [Admission], expression: 'true', message: m}]\n",
			[]string{`s.yaml:8:31: RuleSet s@1.0.0, validation v: there is no "nowhere"`}},
		{"a schema rule that reads gates", "order.validate", "\n  validations: [{name: v, enforce: [Schema], expression: gates.Vouchers, message: m}]\n",
			[]string{"undeclared reference to 'gates'"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := compileOne(tt.point, tt.body, compile.Options{})
			require.Error(t, err)
			require.Len(t, source.Problems(err), len(tt.want), err.Error())
			for i, want := range tt.want {
				require.Contains(t, source.Problems(err)[i].Error(), want)
			}
		})
	}
}

func TestFindingsAreReportedWithoutFailing(t *testing.T) {
	plan := mustCompile(t, "order.ship", `
  params: [{name: idle, type: int, default: "1"}]
  variables: {nobody: 1 + 1, gold: customer.tier == 'gold'}
  decisions:
  - {name: a, when: gold, do: Ship}
  - {name: b, when: "gold", do: Ask}
  - {name: c, when: false, do: Ask}
  - {name: d, do: Hold}
  - {name: e, when: customer.tier == 'tin', do: Ship}
`, compile.Options{})
	var got []string
	for _, f := range plan.Findings() {
		got = append(got, strings.SplitN(f.Error(), "\n", 2)[0])
	}
	require.Equal(t, []string{
		"s.yaml:8:19: RuleSet s@1.0.0: param idle is never read",
		"s.yaml:9:15: RuleSet s@1.0.0: variable nobody is never read",
		"s.yaml:12:12: RuleSet s@1.0.0: decision b is never reached: a above it has the same condition",
		"s.yaml:13:21: RuleSet s@1.0.0, decision c, when: the condition is never true; disable or delete what it guards",
		"s.yaml:15:12: RuleSet s@1.0.0: decision e is never reached: d above it always holds",
	}, got)
}

// A condition that reads a missing key fails: a decision point takes its fail-safe outcome then, whatever comes after.
func TestKeysThatNothingAsksForAreReported(t *testing.T) {
	const key = `customer.notes['a.b/c'] fails where there is no such key, and the outcome is Hold; write customer.notes[?'a.b/c'].orValue('') or 'a.b/c' in customer.notes && …`
	for when, want := range map[string][]string{
		"customer.notes['a.b/c'] == 'x'":                                        {key},
		"size(lines) > 2 && customer.notes['a.b/c'] in ['x', 'y']":              {key},
		"customer.notes.vip == 'x'":                                             {strings.ReplaceAll(key, "a.b/c", "vip")},
		"'other' in customer.notes && customer.notes['a.b/c'] == 'x'":           {key},
		"'a.b/c' in customer.notes && customer.notes['a.b/c'] == 'x'":           nil,
		"!('a.b/c' in customer.notes) || customer.notes['a.b/c'] == 'x'":        nil,
		"has(customer.notes.vip) && customer.notes.vip == 'x'":                  nil,
		"customer.notes[?'a.b/c'].orValue('') == 'x'":                           nil,
		"customer.notes[?'a.b/c'].hasValue() && customer.notes['a.b/c'] == 'x'": nil,
		"noted && customer.notes['a.b/c'] == 'x'":                               nil,
		"customer.tags[0] == 'x'":                                               nil,
	} {
		t.Run(when, func(t *testing.T) {
			plan := mustCompile(t, "order.ship", `
  variables: {noted: "'a.b/c' in customer.notes && size(lines) > 0"}
  decisions: [{name: d, when: "`+when+`", do: Ship}, {name: n, when: noted, do: Ask}]
`, compile.Options{})
			var got []string
			for _, f := range plan.Findings() {
				got = append(got, f.Message)
				require.Equal(t, "RuleSet s@1.0.0, decision d, when", f.Subject)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestTheConditionOfAStageAsksForTheKeysOfItsRules(t *testing.T) {
	for when, want := range map[string]int{`"'vip' in customer.notes"`: 1, `"'other' in customer.notes"`: 2} {
		plan := mustCompile(t, "order.adjust", `
  stages:
  - {name: a, each: line, when: `+when+`, rules: [{name: r, when: "customer.notes['vip'] == 'x'", set: {now.price: cents('4c')}}]}
  - {name: b, each: line, rules: [{name: r, when: "customer.notes['vip'] == 'y'", set: {now.price: cents('4c')}}]}
`, compile.Options{})
		require.Len(t, plan.Findings(), want, when)
		for _, f := range plan.Findings() {
			require.Contains(t, f.Message, "customer.notes['vip'] fails where there is no such key, and the rule is skipped")
		}
	}
}

// A field of an amount is set to a number that says what it counts, wherever in the expression that stands. Zero needs no unit, and
// neither do factors.
func TestNumbersThatFieldsAreSetToSayWhatTheyCount(t *testing.T) {
	for expression, want := range map[string][]string{
		"'4'":                 {"4 counts cents here; write cents('4c')"},
		"'4 + 1'":             {"4 counts cents here; write cents('4c')", "1 counts cents here; write cents('1c')"},
		"'count > 2 ? 7 : 0'": {"7 counts cents here; write cents('7c')"},
		"'max(3, count)'":     {"3 counts cents here; write cents('3c')"},
		"'0'":                 nil,
		"cents('4c')":         nil,
		"\"count > 2 ? cents('4c') * 2 : now.price\"": nil,
	} {
		t.Run(expression, func(t *testing.T) {
			plan := mustCompile(t, "order.adjust", "\n  stages: [{name: a, each: line, rules: [{name: r, set: {now.price: "+expression+"}}]}]\n", compile.Options{})
			var got []string
			for _, f := range plan.Findings() {
				got = append(got, f.Message)
			}
			require.Equal(t, want, got)
		})
	}
}

func TestCostlyAndHugeExpressionsAreRefused(t *testing.T) {
	_, err := compileOne("order.ship", "\n  decisions: [{name: d, when: \"lines.all(a, lines.all(b, lines.all(c, a.price < b.price + c.price)))\", do: Ship}]\n", compile.Options{})
	require.ErrorContains(t, err, "at most 10000000 are allowed: avoid loops inside loops")
	_, err = compileOne("order.ship", "\n  decisions: [{name: d, when: \"lines.all(a, lines.exists(b, a.price < b.price))\", do: Ship}]\n", compile.Options{})
	require.NoError(t, err, "a loop in a loop over a pod's containers is fine")
	_, err = compileOne("order.ship", "\n  decisions: [{name: d, when: \""+strings.Repeat("true && ", 4000)+"true\", do: Ship}]\n", compile.Options{})
	require.ErrorContains(t, err, "at most 16384 are read")
	_, err = compileOne("order.ship", "\n  decisions: [{name: d, when: \""+strings.Repeat("(", 2000)+"true"+strings.Repeat(")", 2000)+"\", do: Ship}]\n", compile.Options{})
	require.Error(t, err, "deep nesting")
}

func TestAmountsOfTheSameUnitMix(t *testing.T) {
	mustCompile(t, "order.adjust", `
  params: [{name: most, type: cents, default: "5"}]
  stages:
  - name: a
    each: line
    variables: {heavy: "mulDivFloor(now.weight, now.price, params.most)", ratio: now.price / params.most}
    rules:
    - {name: r, when: now.price > 5 && heavy > now.weight, set: {now.price: "clamp(now.price * 2, params.most, cents('9'))", now.weight: heavy - now.weight}}
    - {name: q, when: ratio * 3 > count, set: {now.weight: "mulDivCeil(now.weight, 11, 10)"}}
`, compile.Options{})
}

func TestExcerptPointsAtTheFault(t *testing.T) {
	_, err := compileOne("order.ship", "\n  decisions: [{name: d, when: customer.teir == 'x', do: Ship}]\n", compile.Options{})
	require.ErrorContains(t, err, "  |   decisions: [{name: d, when: customer.teir == 'x', do: Ship}]\n  |                                       ^")
}

func TestStrictDecoding(t *testing.T) {
	const head = "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: s}\nspec:\n"
	tests := []struct{ name, data, want string }{
		{"unknown key", head + "  version: 1.0.0\n  point: p\n  decision: []\n", `f.yaml:7:3: RuleSet s: unknown key "decision"; known here: at, decisions, description`},
		{"key twice", head + "  version: 1.0.0\n  version: 1.0.1\n  point: p\n", `f.yaml:6:3: RuleSet s: key "version" stands twice`},
		{"no body", head + "  version: 1.0.0\n  point: p\n", "exactly one of validations, stages and decisions"},
		{"two bodies", head + "  version: 1.0.0\n  point: p\n  decisions: [{name: d, do: X}]\n  stages: [{name: s, rules: [{name: r, note: n}]}]\n", "exactly one of"},
		{"bad version", head + "  version: v1\n  point: p\n  decisions: [{name: d, do: X}]\n", `version "v1" is not a semantic version`},
		{"bad name", head + "  version: 1.0.0\n  point: p\n  decisions: [{name: D d, do: X}]\n", `decision name "D d" must match`},
		{"name twice", head + "  version: 1.0.0\n  point: p\n  decisions: [{name: d, do: X}, {name: d, do: X}]\n", `decision "d" stands twice`},
		{"rule without effect", head + "  version: 1.0.0\n  point: p\n  stages: [{name: s, rules: [{name: r, when: 'true'}]}]\n", "rule r does nothing"},
		{"wrong shape", head + "  version: 1.0.0\n  point: p\n  stages: {name: s}\n", "expected a list"},
		{"wrong kind", "apiVersion: rules.celvpa.dev/v1alpha1\nkind: Rules\n", `kind "Rules" is not known here`},
		{"wrong group", strings.Replace(head, "rules.celvpa.dev/v1alpha1", "v1", 1) + "  version: 1.0.0\n  point: p\n  decisions: [{name: d, do: X}]\n", `apiVersion is "v1"`},
		{"not YAML", "a: [", "did not find expected"},
		{"a scalar", "hello", `kind "" is not known here`},
		{"not UTF-8", "a: \xff", "not valid UTF-8"},
		{"an empty file", "", "f.yaml:1:1: the file is empty"},
		{"a file with comments only", "# later\n", "no Pipeline found"},
		{"cut off", head + "  version: 1.0.0\n  point: p\n  stages:\n  - {name: a, rules: [{name: r, set: {a.b", "did not find expected"},
		{"nested too deeply", head + "  version: " + strings.Repeat("[", 20000), "exceeded max depth"},
		{"a recursive alias", "a: &a [*a]\n", `kind "" is not known here`},
		{"an alias as a value", head + "  version: &v 1.0.0\n  point: *v\n", "f.yaml:6:10: RuleSet s: expected a single value"},
		{"a reserved word", head + "  version: 1.0.0\n  point: p\n  variables: {in: '1'}\n  decisions: [{name: d, do: X}]\n", `the variable name "in" is reserved`},
		{"a reserved name", head + "  version: 1.0.0\n  point: p\n  params: [{name: gates, type: int}]\n  decisions: [{name: default, do: X}]\n", `the param name "gates" is reserved`},
		{"message missing", head + "  version: 1.0.0\n  point: p\n  validations: [{name: v, enforce: [Everywhere], expression: 'true', reason: Bad}]\n", "needs a message"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"f.yaml": {Data: []byte(tt.data)}}, Dir: ""})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestOversizedFileIsRefused(t *testing.T) {
	_, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"f.yaml": {Data: make([]byte, document.MaxFileSize+1)}}, Dir: "dir"})
	require.ErrorContains(t, err, "dir/f.yaml:1:1: the file has 1048577 bytes; at most 1048576 are read")
}

func TestPipelineFaultsAreReported(t *testing.T) {
	set := ruleSet("order.ship", "  decisions: [{name: d, do: Ship}]\n")
	compile := func(points, ref string) error {
		files := fstest.MapFS{
			"s.yaml": {Data: []byte(set)},
			"p.yaml": {Data: []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: Pipeline\nmetadata: {name: p}\nspec:\n  version: 1.0.0\n  points:\n" + points)},
		}
		lib, err := document.Loader{}.Load(document.Layer{FS: files, Dir: ""})
		require.NoError(t, err)
		_, err = compile.Compile(lib, shop(), compile.Options{Pipeline: ref})
		return err
	}
	const rest = "    order.adjust: []\n    order.validate: []\n"
	require.NoError(t, compile("    order.ship: [s@1.0.0]\n"+rest, "p@1.0.0"))
	require.ErrorContains(t, compile("    order.ship: [s@1.0.0]\n", "p"), "p.yaml:3:18: Pipeline p@1.0.0: points that are not named: order.adjust: [], order.validate: []; list their rule sets, or [] where none are meant to run")
	require.ErrorContains(t, compile("    order.ship: [s@1.0.0]\n", "q"), `no pipeline "q"; loaded: p@1.0.0`)
	require.ErrorContains(t, compile("    order.sail: [s@1.0.0]\n", "p"), `p.yaml:7:5: Pipeline p@1.0.0: no point "order.sail"`)
	require.ErrorContains(t, compile("    order.ship: [s@2.0.0]\n", "p"), `p.yaml:7:18: Pipeline p@1.0.0: no rule set "s@2.0.0"; did you mean s@1.0.0? write it as name@version; celvpa rules list has all`)
	require.ErrorContains(t, compile("    order.adjust: [s@1.0.0]\n", "p"), "rule set s@1.0.0 plugs in at order.ship, not at order.adjust")
	require.ErrorContains(t, compile("    order.ship: [s@1.0.0, s@1.0.0]\n", "p"), "stands twice at order.ship")
}

func TestParamsAreTypedOverriddenAndPartOfTheDigest(t *testing.T) {
	const body = `
  params:
  - {name: most, type: cents, default: "50"}
  - {name: least, type: cents}
  - {name: fraction, type: double, default: 0.5}
  - {name: on, type: bool, default: true}
  stages:
  - name: cap
    each: line
    when: params.on
    rules:
    - {name: most, when: now.price > params.most, set: {now.price: params.most}}
    - {name: least, when: has(params.least) && now.price < params.least, set: {now.price: params.least}}
`
	run := func(params map[string]string) (int64, *engine.Plan) {
		plan := mustCompile(t, "order.adjust", body, compile.Options{Params: params})
		f := order(70)
		require.Empty(t, plan.RunStages("order.adjust", f, nil))
		return price(t, line(f, 0)), plan
	}
	got, base := run(nil)
	require.EqualValues(t, 50, got)
	got, changed := run(map[string]string{"s.most": "60c"})
	require.EqualValues(t, 60, got)
	require.NotEqual(t, base.Digest(), changed.Digest())
	_, again := run(map[string]string{"s.most": "60c"})
	require.Equal(t, changed.Digest(), again.Digest())
	got, _ = run(map[string]string{"s.least": "90"})
	require.EqualValues(t, 90, got)
	got, _ = run(map[string]string{"s.on": "false"})
	require.EqualValues(t, 70, got)

	_, err := compileOne("order.adjust", body, compile.Options{Params: map[string]string{"s.fraction": "NaN"}})
	require.ErrorContains(t, err, `param fraction: "NaN" is not a finite number`)
	_, err = compileOne("order.adjust", body, compile.Options{Params: map[string]string{"s.mots": "1"}})
	require.ErrorContains(t, err, `no parameter "s.mots"`)
	_, err = compileOne("order.adjust", body, compile.Options{Gates: map[string]bool{"X": true}})
	require.ErrorContains(t, err, `no feature gate "X"; known: Vouchers`)
}

func FuzzRuleFilesNeverPanic(f *testing.F) {
	f.Add("order.ship", shipping)
	f.Add("order.adjust", "\n  stages: [{name: a, each: line, rules: [{name: r, set: {now.price: \"now.price + 1\"}}]}]\n")
	f.Add("order.adjust", "\n  stages: [{name: a, when: |-\n   'x'\n  }]")
	// Axes, parameters with a value per axis value, braces in `at`.
	f.Add("order.adjust", "\n  params: [{name: x, each: measure, type: {price: cents, weight: grams}, default: {price: 1, weight: 2}}]\n  stages:\n"+
		"  - {name: a, each: [line, measure], without: [price], variables: {v: 'params.x[measure]'}, rules: [{name: r, when: measure in now, set: {'now[measure]': 'now[?measure].orValue(v)'}, note: '{measure}'}]}\n")
	f.Add("order.adjust", "\n  stages: [{name: a, each: [line, measure], when: \"measures.exists(m, m in now && measures.all(n, now[n] > 0)) && size(measures) > 1\", rules: [{name: r, unset: 'now[measure]'}]}]\n")
	f.Add("order.adjust", "\n  params: [{name: x, type: int, default: 1}, {name: x.price, type: int, default: 1}, {name: y, each: size, type: int, default: {s: 1}}]\n  stages: [{name: a, when: params.x.price > params.y.s, rules: [{name: r, note: x}]}]\n")
	f.Add("order.ship", "\n  decisions: [{name: a, when: \"lines.exists(l, measures.map(m, l[?m].orValue(0)).exists(n, n > 0))\", do: Ship}]\n")
	f.Add("order.validate", "\n  at: '{lines,gifts}[*]'\n  validations: [{name: a, axes: [measure], at: '.{a,b}[measure]', when: measure in self, expression: 'self[measure] > 0', message: '{measure}', fieldPath: '.x[measure]'}]\n")
	f.Add("order.validate", "\n  validations: [{name: a, at: '{{a,b},c', expression: 'true', message: x}]\n")
	// Test tables after a rule set: valid, truncated, of the wrong kinds, and nested.
	const set = "\n  stages: [{name: a, each: line, rules: [{name: r, set: {now.price: \"now.price + 1\", total.price: \"voucher(customer.vouchers, 'x')\"}}]}]\n---\n"
	const table = "  point: order.adjust\n  gates: {Vouchers: true}\n  given: {customer: {tags: [a], vouchers: {x: 1c}}, line: {a: {now: {price: 1}}}}\n" +
		"  rows: [{name: a, expect: {line: {a: {now: {}, notes: [x]}}, total: {price: 1}, fired: [], errors: [s/a/r]}}]\n"
	f.Add("order.adjust", set+tableHead+table)
	f.Add("order.adjust", set+tableHead+table[:len(table)/2])
	f.Add("order.adjust", set+tableHead+strings.NewReplacer("[a]", "{a: b}", "given: {", "params: {s.x: 1}\n  given: {", "{x: 1c}", "[]", "{now: {}, notes: [x]}", "[[]]").Replace(table))
	f.Add("order.adjust", set+tableHead+"  point: order.validate\n  rows: [{name: a, given: {object: {lines: "+strings.Repeat("[", 500)+strings.Repeat("]", 500)+"}}, expect: {violations: [{rule: a}]}}]\n")
	f.Add("order.ship", shipping+"---\n"+tableHead+"  point: order.ship\n  rows: [{name: a, given: {lines: [{}, {weight: 1}]}, expect: {do: Ship, rule: x, reason: null}}, {name: b, given: {lines: {}}, expect: {do: {}}}]\n")
	f.Fuzz(func(t *testing.T, point, body string) {
		files := oneRuleSet(shop(), point, body)
		lib, err := document.Loader{}.Load(document.Layer{FS: files})
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		coverage := engine.NewCoverage()
		shopRunner(lib, coverage).Run(lib.Tests)
		coverage.Report()
		plan, err := compile.Compile(lib, shop(), compile.Options{Pipeline: "p"})
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		plan.RunStages("order.adjust", order(1, 2), &engine.Trace{})
		plan.Decide("order.ship", shipment("gold", 1), &engine.Trace{})
	})
}
