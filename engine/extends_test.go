package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

const sharedMost = "  params:\n  - {name: most, each: measure, type: {price: cents, weight: grams}, default: {price: 50, weight: 900}}\n"

// extended is defined, but its pipeline shares the param.
var extended = strings.NewReplacer("  definitions:\n", sharedMost+"  definitions:\n", sharedMost, "").Replace(defined)

// extending is a pipeline r over another one.
func extending(base, rest string) string {
	return "---\napiVersion: rules.celvpa.dev/v1alpha1\nkind: Pipeline\nmetadata: {name: r}\nspec:\n  version: 1.0.0\n  extends: " + base + "\n" + rest
}

func planOf(t *testing.T, book *compile.Rulebook, pipeline string) *engine.Plan {
	t.Helper()
	for _, plan := range book.Plans() {
		if plan.Pipeline() == pipeline {
			return plan
		}
	}
	require.FailNow(t, "no plan of "+pipeline)
	return nil
}

func TestAPipelineSetsParamsOfWhatItExtends(t *testing.T) {
	files := extended + extending("p", "  set: {most.price: 60}\n") + strings.Replace(extending("r", "  set: {most.weight: 70}\n"), "{name: r}", "{name: s}", 1)
	book, err := bookOf(files)
	require.NoError(t, err)
	require.Equal(t, []string{"pipeline p@1.0.0 → r@1.0.0", "param most.price 50 → 60"}, engine.Diff(planOf(t, book, "p@1.0.0"), planOf(t, book, "r@1.0.0")))
	require.Equal(t, []string{"pipeline p@1.0.0 → s@1.0.0", "param most.price 50 → 60", "param most.weight 900 → 70"},
		engine.Diff(planOf(t, book, "p@1.0.0"), planOf(t, book, "s@1.0.0")), "what it inherits is set, too")

	_, err = bookOf(extended + extending("p", "  set: {most.size: 60}\n"))
	require.ErrorContains(t, err, `pipeline r@1.0.0 has no parameter "most.size"; it has most.price, most.weight`)
	_, err = bookOf(extended + extending("p", "  set: {most.price: much}\n"))
	require.ErrorContains(t, err, "much")
}

func TestAPipelineChangesWhatItExtends(t *testing.T) {
	book, err := bookOf(extended + extending("p", `
  params:
  - {name: most.price, type: cents, default: 60}
  definitions:
  - {name: isGold, args: [tier], expression: "tier == 'silver'"}
  points: {order.ship: []}
`))
	require.NoError(t, err)
	require.Empty(t, book.Findings(), "what it inherits and no longer reads is no mistake")
	base, plan := planOf(t, book, "p@1.0.0"), planOf(t, book, "r@1.0.0")
	require.ElementsMatch(t, []string{
		"pipeline p@1.0.0 → r@1.0.0",
		"param most.price 50 → 60",
		"definition isGold(tier): tier in ['gold', 'platinum'] → tier == 'silver', called by cap/cap, valid/tier",
		"order.ship: rule set ship@1.0.0 no longer runs",
	}, engine.Diff(base, plan))
	f := order(40, 70)
	require.Empty(t, plan.RunStages("order.adjust", f, nil))
	require.Equal(t, []int64{40, 60}, amounts(f))

	// What is shown is complete, and the same pipeline.
	var out strings.Builder
	require.NoError(t, plan.Render(&out))
	alone, err := bookOf(strings.Replace(out.String(), "name: r", "name: p", 1))
	require.NoError(t, err)
	require.Equal(t, []string{"pipeline r@1.0.0 → p@1.0.0"}, engine.Diff(plan, alone.Default()))
}

func TestExtendingAddsAndChains(t *testing.T) {
	chain := extended + extending("q@1.0.0", "  points: {order.adjust: []}\n") +
		strings.NewReplacer("{name: r}", "{name: q}").Replace(extending("p@1.0.0", `
  definitions:
  - {name: isSilver, args: [tier], expression: "!isGold(tier)"}
  points: {order.ship: [late@1.0.0]}
`)) + `---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: late}
spec:
  version: 1.0.0
  point: order.ship
  decisions:
  - {name: any, do: Ship, reasonExpression: "isSilver(customer.tier) ? 'late' : 'soon'"}
`
	book, err := bookOf(chain)
	require.NoError(t, err)
	require.Empty(t, book.Findings())
	require.Equal(t, []string{"pipeline q@1.0.0 → r@1.0.0", "order.adjust: rule set cap@1.0.0 no longer runs"}, engine.Diff(planOf(t, book, "q@1.0.0"), planOf(t, book, "r@1.0.0")))
	f := order(40)
	f.Set("customer", customerSchema.New().SetString("tier", "none"))
	require.Equal(t, "late", planOf(t, book, "r@1.0.0").Decide("order.ship", f, nil).Reason)
}

func TestAnExtensionFollowsABaseThatALaterLayerReplaces(t *testing.T) {
	layer := func(name, text string) document.Layer {
		return document.Layer{FS: fstest.MapFS{name: {Data: []byte(text)}}}
	}
	shipped, err := document.Loader{}.Load(layer("base.yaml", extended+extending("p", "  points: {order.ship: []}\n")))
	require.NoError(t, err)
	pipeline, _, _ := strings.Cut(extended, "---\n")
	lib, err := document.Loader{Base: shipped}.Load(layer("mine.yaml", strings.Replace(pipeline, "'platinum'", "'silver'", 1)))
	require.NoError(t, err)
	book, err := compile.NewRulebook(lib, shop(), compile.Options{Pipeline: "p"})
	require.NoError(t, err)
	require.Contains(t, planOf(t, book, "r@1.0.0").Validations("order.validate")[0].Validation.Expression.Value, "\"silver\"")
	first, err := compile.NewRulebook(shipped, shop(), compile.Options{Pipeline: "p"})
	require.NoError(t, err)
	require.Contains(t, planOf(t, first, "r@1.0.0").Validations("order.validate")[0].Validation.Expression.Value, "\"platinum\"", "the library below is as it was")
}

func TestFaultsOfExtensions(t *testing.T) {
	named := func(name, text string) string { return strings.Replace(text, "{name: r}", "{name: "+name+"}", 1) }
	for name, tt := range map[string]struct{ rules, want string }{
		"no such pipeline":                {extending("s", ""), `Pipeline r@1.0.0: no pipeline "s"; loaded: p@1.0.0, r@1.0.0`},
		"no such version":                 {extending("p@2.0.0", ""), `Pipeline r@1.0.0: no pipeline "p@2.0.0"; did you mean p@1.0.0? loaded: p@1.0.0, r@1.0.0`},
		"below another":                   {extending("a", "") + named("a", extending("s", "")), `Pipeline a@1.0.0: no pipeline "s"; loaded: a@1.0.0, p@1.0.0, r@1.0.0`},
		"itself":                          {extending("r", ""), "Pipeline r@1.0.0: the pipeline extends itself; give it a name or version of its own"},
		"a circle":                        {extending("a", "") + named("a", extending("b", "")) + named("b", extending("c@1.0.0", "")) + named("c", extending("a", "")), "Pipeline c@1.0.0: pipelines extend each other: c@1.0.0 → a@1.0.0 → b@1.0.0 → c@1.0.0; remove one of them"},
		"an unknown point":                {extending("p", "  points: {order.ships: []}\n"), `Pipeline r@1.0.0: no point "order.ships"`},
		"a default below its own minimum": {extending("p", "  params: [{name: most.price, type: cents, default: 50, min: 60}]\n"), "Pipeline r@1.0.0: param most.price: 50 is below the least allowed, 60"},
		"a param of one value where there are two": {extending("p", "  params: [{name: most, type: cents}]\n"), "param most has one value, and also one for each value of an axis"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bookOf(extended + tt.rules)
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, 1, strings.Count(err.Error(), tt.want), err)
		})
	}
}

func TestFaultsOfWhatIsInheritedAreReportedOnce(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, want string }{
		"a definition": {"tier in ['gold', 'platinum']", "tiers in ['gold']", "Pipeline p@1.0.0, definition isGold: isGold(tier) reads only its arguments, params and gates"},
		"a rule set":   {"[ship@1.0.0]", "[ship@2.0.0]", `Pipeline p@1.0.0: no rule set "ship@2.0.0"`},
		"a param":      {"price: 50,", "price: many,", "Pipeline p@1.0.0: param most.price"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bookOf(strings.Replace(extended, tt.from, tt.to, 1) + extending("p", "  points: {order.validate: []}\n"))
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "Pipeline r@1.0.0")
			require.Equal(t, 1, strings.Count(err.Error(), tt.want), err)
		})
	}
}

// A million bytes hold about ten thousand pipelines; a chain of them must neither exhaust the stack
// nor take minutes.
func TestALongChainOfExtensionsLoads(t *testing.T) {
	var rules strings.Builder
	rules.WriteString(extended)
	const length = 2000
	for i := range length {
		base := "p"
		if i > 0 {
			base = fmt.Sprintf("r%d@1.0.0", i-1)
		}
		rules.WriteString(strings.Replace(extending(base, ""), "{name: r}", fmt.Sprintf("{name: r%d}", i), 1))
	}
	lib, err := libraryOf(rules.String())
	require.NoError(t, err)
	last, err := lib.Pipeline(fmt.Sprintf("r%d", length-1))
	require.NoError(t, err)
	require.Len(t, last.Points, 3)
	require.Equal(t, "p@1.0.0", last.PointFrom("order.ship").ID())
}
