package engine_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

// defined is a policy whose rules call definitions at points of all kinds.
const defined = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: Pipeline
metadata: {name: p}
spec:
  version: 1.0.0
  definitions:
  - {name: amountOf, args: [goods, which], expression: "goods[?which].orValue(0)", description: "An amount, 0 = none"}
  - {name: isAbove, args: [goods, which, most], expression: "amountOf(goods, which) > most"}
  - {name: isGold, args: [tier], expression: "tier in ['gold', 'platinum']"}
  points: {order.adjust: [cap@1.0.0], order.ship: [ship@1.0.0], order.validate: [valid@1.0.0]}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: cap}
spec:
  version: 1.0.0
  point: order.adjust
  params:
  - {name: most, each: measure, type: {price: cents, weight: grams}, default: {price: 50, weight: 900}}
  stages:
  - name: cap
    each: [line, measure]
    when: "!isGold(customer.?tier.orValue(''))"
    variables:
      above: isAbove(now, measure, params.most[measure])
    rules:
    - name: most
      when: above
      set: {"now[measure]": "min(params.most[measure], amountOf(now, measure))"}
  - name: count
    rules:
    - {name: free, when: count > 2, set: {total.free: "true"}}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: ship}
spec:
  version: 1.0.0
  point: order.ship
  decisions:
  - {name: dear, when: "lines.exists(l, measures.exists(m, isAbove(l, m, 0)))", do: Ask}
  - {name: rest, do: Ship, reasonExpression: "isGold(customer.tier) ? 'gold' : 'late'"}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: valid}
spec:
  version: 1.0.0
  point: order.validate
  validations:
  - name: tier
    axes: [measure]
    at: lines[*]
    enforce: [Schema, Admission]
    when: measure in self && !isGold(self.tier)
    expression: isGold(self[measure])
    message: no
    messageExpression: "'not ' + (isGold(self.tier) ? 'a' : measure)"
`

func definedPlan(t *testing.T, replace ...string) *engine.Plan {
	t.Helper()
	book, err := bookOf(strings.NewReplacer(replace...).Replace(defined))
	require.NoError(t, err)
	return book.Default()
}

func TestRulesCallDefinitions(t *testing.T) {
	book, err := bookOf(defined)
	require.NoError(t, err)
	require.Empty(t, book.Findings())
	for _, plan := range []*engine.Plan{book.Default(), book.Default().Interpreted()} {
		f := order(40, 70)
		f.Set("customer", customerSchema.New().SetString("tier", "none"))
		require.Empty(t, plan.RunStages("order.adjust", f, nil))
		require.Equal(t, []int64{40, 50}, amounts(f))
		f = order(40, 70)
		require.Empty(t, plan.RunStages("order.adjust", f, nil))
		require.Equal(t, []int64{40, 70}, amounts(f), "gold customers pay any price")
	}
}

func TestDefinitionsReadParamsAndGates(t *testing.T) {
	lib, err := libraryOf(strings.NewReplacer("  definitions:\n", "  params: [{name: best, type: string, default: platinum}]\n  definitions:\n",
		"tier in ['gold', 'platinum']", "tier in ['gold', params.best] && !gates.Vouchers", "enforce: [Schema, Admission]", "enforce: [Admission]").Replace(defined))
	require.NoError(t, err)
	registry, cache := shop(), &compile.Cache{}
	for _, vouchers := range []bool{false, true, false} {
		book, err := compile.NewRulebook(lib, registry, compile.Options{Pipeline: "p", Gates: map[string]bool{"Vouchers": vouchers}, Cache: cache})
		require.NoError(t, err)
		require.Empty(t, book.Findings())
		require.True(t, book.Default().ReadsParam("order.adjust", "best"))
		f := order(40, 70)
		require.Empty(t, book.Default().RunStages("order.adjust", f, nil))
		require.Equal(t, vouchers, amounts(f)[1] == 50, "gold customers pay any price without the gate")
	}
}

func TestValidationsForOthersHaveNoCalls(t *testing.T) {
	v := definedPlan(t).Validations("order.validate")
	require.Len(t, v, 2)
	require.Equal(t, `"price" in self && !(self.tier in ["gold", "platinum"])`, v[0].Validation.When.Value)
	require.Equal(t, `self.price in ["gold", "platinum"]`, v[0].Validation.Expression.Value)
	require.Equal(t, `"not " + ((self.tier in ["gold", "platinum"]) ? "a" : "price")`, v[0].Validation.MessageExpression.Value)
}

func TestAChangedDefinitionIsAChangedRule(t *testing.T) {
	before, after := definedPlan(t), definedPlan(t, "'platinum'", "'silver'")
	require.NotEqual(t, before.Digest(), after.Digest())
	require.Equal(t, []string{"definition isGold(tier): tier in ['gold', 'platinum'] → tier in ['gold', 'silver'], called by cap/cap, ship/rest, valid/tier"}, engine.Diff(before, after))
	for path, changed := range map[string]bool{"cap": true, "cap/cap": true, "cap/cap/most": false, "cap/count": false, "ship/rest": true, "ship/dear": false, "valid/tier": true} {
		_, was, err := before.Part(path)
		require.NoError(t, err)
		_, is, err := after.Part(path)
		require.NoError(t, err)
		require.Equal(t, changed, was != is, path)
	}
	deep := definedPlan(t, "orValue(0)\"", "orValue(1)\"")
	require.Equal(t, []string{"definition amountOf(goods, which): goods[?which].orValue(0) → goods[?which].orValue(1), called by cap/cap, ship/dear"}, engine.Diff(before, deep))
	_, was, err := before.Part("ship/dear")
	require.NoError(t, err)
	_, is, err := deep.Part("ship/dear")
	require.NoError(t, err)
	require.NotEqual(t, was, is, "a definition calls the one that changed")
	renamed := definedPlan(t, "isGold", "isDear", "[tier]", "[level]", "tier in", "level in")
	diff := engine.Diff(before, renamed)
	require.Contains(t, diff, "definition isGold(tier) is gone")
	require.Contains(t, diff, "definition isDear(level) is new: level in ['gold', 'platinum']")
	require.Equal(t, before.Digest(), definedPlan(t, "An amount, 0 = none", "An amount").Digest(), "prose is no rule")
}

func TestPartsShowWhatTheyCall(t *testing.T) {
	calls, err := definedPlan(t).Calls("ship/dear")
	require.NoError(t, err)
	require.Equal(t, []string{"amountOf(goods, which) is goods[?which].orValue(0)", "isAbove(goods, which, most) is amountOf(goods, which) > most"}, calls)
}

func TestRenderedDefinitionsGiveTheSamePlan(t *testing.T) {
	plan := definedPlan(t)
	var out strings.Builder
	require.NoError(t, plan.Render(&out))
	book, err := bookOf(out.String())
	require.NoError(t, err)
	require.Equal(t, plan.Digest(), book.Default().Digest())
	require.Empty(t, engine.Diff(plan, book.Default()))
}

func TestOverlaysCallDefinitions(t *testing.T) {
	book, err := bookOf(defined, overlay("mine", "  change: [{before: ship/dear, decision: {name: none, when: '!lines.exists(l, isAbove(l, ''weight'', 0))', do: Hold}}]\n"))
	require.NoError(t, err)
	require.Empty(t, book.Findings())
	_, err = bookOf(defined, overlay("mine", "  change: [{before: ship/dear, decision: {name: none, when: 'isGolds(customer.tier)', do: Hold}}]\n"))
	require.ErrorContains(t, err, "o.yaml:6:69: RuleSet ship@1.0.0, decision none, when: undeclared reference to 'isGolds': neither a function nor a definition of Pipeline p@1.0.0; did you mean isGold?")
}

func TestALiteralArgumentChoosesABranch(t *testing.T) {
	_, err := bookOf(strings.NewReplacer("  points: {order.adj", "  - {name: extent, args: [goods, which], expression: \"which == 'price' ? goods.price : goods.weight\"}\n  points: {order.adj",
		"isAbove(l, m, 0)))", "m in l && extent(l, m) > 0)) || lines.exists(l, extent(l, 'price') > cents('3c'))").Replace(defined))
	require.NoError(t, err, "amounts of different units would meet in the branches")
}

func TestADefinitionThatOnlyAnOverlayCallsIsCalled(t *testing.T) {
	idle := strings.Replace(defined, "  points: {order.adj", "  - {name: isNew, args: [tags], expression: \"'new' in tags\"}\n  points: {order.adj", 1)
	book, err := bookOf(idle)
	require.NoError(t, err)
	require.Equal(t, []string{"base.yaml:11:12: Pipeline p@1.0.0: definition isNew is never called"}, findings(book))
	book, err = bookOf(idle, overlay("mine", "  change: [{before: ship/dear, decision: {name: none, when: isNew(customer.tags), do: Hold}}]\n"))
	require.NoError(t, err)
	require.Empty(t, findings(book))
}

func findings(book *compile.Rulebook) []string {
	var out []string
	for _, p := range book.Findings() {
		first, _, _ := strings.Cut(p.Error(), "\n")
		out = append(out, first)
	}
	return out
}

func TestPipelinesMayDefineOneNameInTwoWays(t *testing.T) {
	pipelines, sets, _ := strings.Cut(defined, "---\n")
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"sets.yaml": {Data: []byte(sets)}, "p.yaml": {Data: []byte(pipelines)},
		"q.yaml": {Data: []byte(strings.NewReplacer("{name: p}", "{name: q}", "'platinum'", "'silver'").Replace(pipelines))}}})
	require.NoError(t, err)
	book, err := compile.NewRulebook(lib, shop(), compile.Options{Pipeline: "p"})
	require.NoError(t, err)
	said := map[string]string{}
	for _, plan := range book.Plans() {
		said[plan.Pipeline()] = plan.Validations("order.validate")[0].Validation.Expression.Value
	}
	require.Equal(t, map[string]string{"p@1.0.0": `self.price in ["gold", "platinum"]`, "q@1.0.0": `self.price in ["gold", "silver"]`}, said)
}

func TestDefinitionFaultsAreReportedInPlace(t *testing.T) {
	change := func(from, to string) string { return strings.Replace(defined, from, to, 1) }
	for name, tt := range map[string]struct{ rules, want string }{
		"no expression":                           {change(", expression: \"tier in ['gold', 'platinum']\"", ""), "base.yaml:10:12: Pipeline p: definition isGold has no expression"},
		"no arguments":                            {change("isGold, args: [tier], expression: \"tier in ['gold', 'platinum']\"", "isGold, expression: 'true'"), "base.yaml:10:12: Pipeline p: definition isGold has no args, so it is a constant: declare a param"},
		"two of a name":                           {change("name: isGold", "name: isAbove"), `base.yaml:10:12: Pipeline p: definition "isAbove" stands twice`},
		"two arguments of a name":                 {change("args: [goods, which, most]", "args: [goods, which, goods]"), `base.yaml:9:42: Pipeline p: argument "goods" stands twice`},
		"the name of a function":                  {change("name: isGold", "name: voucher"), `base.yaml:10:12: Pipeline p@1.0.0, definition voucher: the name "voucher" of the definition is taken by a function; choose another`},
		"the name of a unit":                      {change("name: isGold", "name: cents"), `the name "cents" of the definition is taken by a function`},
		"the name of a macro":                     {change("name: isGold", "name: exists"), `the name "exists" of the definition is taken by a function`},
		"the name of a unit that has no function": {change("name: isGold", "name: grams"), `the name "grams" of the definition is taken by a unit`},
		"the name of a fact":                      {change("name: isGold", "name: customer"), `the name "customer" of the definition is taken by a fact of order.adjust`},
		"the name of an axis":                     {change("name: isGold", "name: measure"), `the name "measure" of the definition is taken by an axis`},
		"a fact that it reads":                    {change("tier in", "tier + customer.tier in"), "base.yaml:10:54: Pipeline p@1.0.0, definition isGold: isGold(tier) reads only its arguments, params and gates, so not customer; add an argument for it"},
		"a definition below":                      {change("goods[?which].orValue(0)", "isGold(which) ? 1 : goods[?which].orValue(0)"), "base.yaml:8:63: Pipeline p@1.0.0, definition amountOf: isGold is declared below; put it above amountOf"},
		"itself":                                  {change("tier in", "isGold(tier) || tier in"), "base.yaml:10:53: Pipeline p@1.0.0, definition isGold: isGold calls itself; its expression stands in place of each call, so it cannot"},
		"too few arguments":                       {change("isAbove(now, measure, params.most[measure])", "isAbove(now, measure)"), "base.yaml:26:21: RuleSet cap@1.0.0, stage cap, variable above: definition isAbove(goods, which, most) takes 3 arguments, not 2"},
		"an unknown name":                         {change("above: isAbove(", "above: isAbov("), "base.yaml:26:20: RuleSet cap@1.0.0, stage cap, variable above: undeclared reference to 'isAbov': neither a function nor a definition of Pipeline p@1.0.0; did you mean isAbove?"},
		"an unknown name in a schema":             {change("expression: isGold(self[measure])", "expression: isGould(self[measure])"), "base.yaml:57:24: RuleSet valid@1.0.0, validation tier, expression: undeclared reference to 'isGould': neither a function nor a definition of Pipeline p@1.0.0; did you mean isGold?"},
		"called as a method":                      {change("reasonExpression: \"isGold(customer.tier)", "reasonExpression: \"customer.tier.isGold()"), "undeclared reference to 'isGold': it is a definition; call it as isGold(tier)"},
		"a wrong argument":                        {change("when: \"!isGold(customer.?tier.orValue(''))\"", "when: isGold(count)"), "base.yaml:24:11: RuleSet cap@1.0.0, stage cap, when: operator in does not take (int, list(string)) (in definition isGold at base.yaml:10:52)"},
		"a fault in an argument":                  {change("isGold(customer.?tier", "isGold(customer.?tear"), "base.yaml:24:28: RuleSet cap@1.0.0, stage cap, when: undefined field 'tear'"},
		"units that meet in it":                   {change("isAbove(now, measure, params.most[measure])", "isAbove(now, 'weight', cents('1c'))"), "base.yaml:26:14: RuleSet cap@1.0.0, stage cap, variable above: grams meets cents here: they are counted in different units (grams and cents) (in definition isAbove at base.yaml:9:85)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bookOf(tt.rules)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestFunctionsOfPointsThatAreNotCompiledAreNotUnknown(t *testing.T) {
	rules := func(call string) *document.Library {
		lib, err := libraryOf(strings.Replace(defined, "tier in ['gold', 'platinum']", call, 1))
		require.NoError(t, err)
		return lib
	}
	for _, points := range [][]string{nil, {"order.adjust"}} {
		_, err := compile.NewRulebook(rules("tier in ['gold'] || 'x'.matches(tier)"), shop(), compile.Options{Pipeline: "p", Points: points})
		require.ErrorContains(t, err, "undeclared reference to 'matches': there are no regular expressions")
		require.NotContains(t, err.Error(), "no function or definition")
	}
	_, err := compile.NewRulebook(rules("tier in ['gold'] || sets.contains(tier, tier)"), shop(), compile.Options{Pipeline: "p", Points: []string{"order.validate"}})
	require.ErrorContains(t, err, "isGold(tier) reads only its arguments, params and gates, so not sets")
}

func TestAFaultyDefinitionIsReportedOnce(t *testing.T) {
	_, err := bookOf(strings.Replace(defined, "tier in ['gold', 'platinum']", "tiers in ['gold']", 1))
	require.ErrorContains(t, err, "isGold(tier) reads only its arguments, params and gates, so not tiers")
	require.NotContains(t, err.Error(), "undeclared")
	require.NotContains(t, err.Error(), "RuleSet")
}

func TestANumberWithoutAUnitInADefinitionIsAFindingOfItsCaller(t *testing.T) {
	book, err := bookOf(strings.Replace(defined, "expression: \"amountOf(goods, which) > most\"", "expression: \"amountOf(goods, which) > most && goods[which] > 7\"", 1))
	require.NoError(t, err)
	require.Contains(t, findings(book), "base.yaml:26:14: RuleSet cap@1.0.0, stage cap, variable above: 7 counts cents here; write cents('7c') (in definition isAbove at base.yaml:9:110)")
}
