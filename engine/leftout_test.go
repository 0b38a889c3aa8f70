package engine_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

const faultAtShip = "when: size(lines) == 'none', do: Hold"

// partOf builds a rulebook with only some points compiled.
func partOf(t testing.TB, rules string, points ...string) (*compile.Rulebook, error) {
	t.Helper()
	reg := shop()
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"rules.yaml": {Data: []byte(rules)}}})
	require.NoError(t, err)
	return compile.NewRulebook(lib, reg, compile.Options{Pipeline: "p@1.0.0", Points: points})
}

func TestDigestIgnoresWhichPointsAreCompiled(t *testing.T) {
	all, err := partOf(t, shopRules)
	require.NoError(t, err)
	for _, points := range [][]string{{"order.adjust"}, {"order.ship"}, {"order.ship", "order.validate"}} {
		part, err := partOf(t, shopRules, points...)
		require.NoError(t, err)
		for i, plan := range part.Plans() {
			require.Equal(t, all.Plans()[i].Digest(), plan.Digest(), "%s of %v", plan.Pipeline(), points)
			require.Equal(t, all.Plans()[i].RuleSets("order.adjust"), plan.RuleSets("order.adjust"))
		}
		for _, plan := range []*engine.Plan{part.Default(), part.Default().Interpreted()} {
			require.Equal(t, slices.Contains(points, "order.adjust"), canRun(plan), "%v", points)
		}
	}
}

func canRun(p *engine.Plan) (ok bool) {
	defer func() { ok = recover() == nil }()
	p.RunStages("order.adjust", order(1), nil)
	return true
}

func TestRunningAnUncompiledPointPanics(t *testing.T) {
	part, err := partOf(t, shopRules, "order.adjust")
	require.NoError(t, err)
	message := "engine: point order.ship was left out when pipeline p@1.0.0 was compiled: name it among the points to compile"
	require.PanicsWithValue(t, message, func() { part.Default().Decide("order.ship", shipPoint.NewFacts(), nil) })
	message = strings.Replace(message, "order.ship", "order.validate", 1)
	require.PanicsWithValue(t, message, func() { part.Default().Validate("order.validate", engine.Judged{}, nil) })
	require.PanicsWithValue(t, message, func() { part.Default().Validations("order.validate") })
}

func TestFaultIsReportedOnlyIfItsPointIsCompiled(t *testing.T) {
	broken := strings.Replace(shopRules, "when: size(lines) == 0, do: Hold", faultAtShip, 1)
	require.NotEqual(t, shopRules, broken)
	for _, points := range [][]string{nil, {"order.ship"}, {"order.adjust", "order.ship"}} {
		_, err := partOf(t, broken, points...)
		require.ErrorContains(t, err, "RuleSet ship@1.0.0, decision none", "%v", points)
	}
	book, err := partOf(t, broken, "order.adjust")
	require.NoError(t, err)
	require.True(t, canRun(book.Default()))
}

func TestParametersAndNamesAreCheckedAtEveryPoint(t *testing.T) {
	for name, tt := range map[string]struct{ was, is, want string }{
		"a rule set that is not there": {"order.ship: [ship@1.0.0]", "order.ship: [ship@9.0.0]", `no rule set "ship@9.0.0"`},
		"a rule set of another point":  {"order.ship: [ship@1.0.0]", "order.ship: [double@1.0.0]", "rule set double@1.0.0 plugs in at order.adjust"},
		"a default beyond its bounds":  {"default: 10, min: 0", "default: 10, min: 20", "param fee: 10 is below the least allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := strings.Replace(shopRules, tt.was, tt.is, 1)
			require.NotEqual(t, shopRules, broken)
			_, err := partOf(t, broken, "order.validate")
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestOverlaysAreCheckedAtEveryPointTheyChange(t *testing.T) {
	changed := func(when string) string {
		return shopRules + overlay("mine", "  pipeline: p@1.0.0\n  change: [{replace: ship/some, decision: {when: "+when+", do: Ship}}]\n")
	}
	good := changed("size(lines) > 1")
	all, err := partOf(t, good)
	require.NoError(t, err)
	part, err := partOf(t, good, "order.adjust")
	require.NoError(t, err)
	require.Equal(t, all.For(document.Subject{}).Plan.Digest(), part.For(document.Subject{}).Plan.Digest())
	require.Empty(t, part.For(document.Subject{}).Plan.Parts().Points["order.ship"].Sets[0].Decisions, "it was only checked")

	_, err = partOf(t, changed("size(lines) > 'one'"), "order.adjust")
	require.ErrorContains(t, err, "RuleSet ship@1.0.0, decision some", "who accepts an overlay answers for all of it")
}

func TestUnknownPointIsRefused(t *testing.T) {
	_, err := partOf(t, shopRules, "order.shipp")
	require.EqualError(t, err, `no point "order.shipp" to compile; known: order.adjust, order.ship, order.validate`)
}

// Whoever writes that an overlay is accepted may not run the point at which it costs too much.
func TestCostOfAnOverlayCountsAtPointsThatAreNotCompiled(t *testing.T) {
	dear := overlay("dear", "  pipeline: p@1.0.0\n  change:\n  - after: markup\n    stage:\n      name: dear\n      each: line\n      rules:\n"+
		strings.ReplaceAll(manyRules(24, "{now.price: sum(customer.tags.map(x, sum(customer.tags.map(y, sum(customer.tags.map(z, size(z)))))))}"), "    -", "        -"))
	for _, points := range [][]string{nil, {"order.adjust"}, {"order.ship"}} {
		_, err := partOf(t, shopRules+dear, points...)
		require.ErrorContains(t, err, "the rules at order.adjust may take", "%v", points)
	}
}
