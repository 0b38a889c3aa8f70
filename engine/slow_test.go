package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
)

// Regression: a slow rule took what the run had left from all others, which then failed, too.
func TestSlowRulesOfAnOverlayAreLeftOutAndTheOthersRun(t *testing.T) {
	slow := overlay("slow", `  pipeline: p@1.0.0
  change:
  - after: markup/fees
    stage:
      name: slow
      each: line
      rules:
      - {name: every, when: "customer.tags.exists(a, customer.tags.all(b, b == a) && a == '')", note: never}
      - {name: next, note: next}
`)
	chosen := mustRulebook(t, slow).For(document.Subject{})
	require.NoError(t, chosen.Err)
	for name, tt := range map[string]struct {
		tags  int
		notes []string
		slow  []engine.Payer
	}{
		"a list of usual size": {tags: lang.MaxFieldList, notes: []string{"next"}},
		"a huge one":           {tags: 20_000, slow: []engine.Payer{{RuleSet: "markup", Overlay: "slow"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := order(100, 1000)
			f.Set("customer", customerSchema.New().Put("tags", lang.ListFrom(slices.Repeat([]string{"new"}, tt.tags))))
			var left []engine.Payer
			trace := &engine.Trace{}
			for _, e := range chosen.Plan.RunStages("order.adjust", f, trace) {
				require.NotNil(t, e.Slow, e)
				require.Equal(t, "markup/slow/every", e.Path)
				left = append(left, *e.Slow)
				require.True(t, slices.ContainsFunc(trace.Steps(), func(s engine.Step) bool {
					return strings.Contains(s.Error, "steps in one run; what RuleOverlay slow put into rule set markup is left out for the rest of it")
				}), "explanations say so")
			}
			require.Equal(t, tt.slow, left, "once in a run, not for each line")
			for i, want := range []int64{110, 500} {
				require.Equal(t, want, price(t, line(f, i)), "rules of the same set, and those after it")
				require.Equal(t, tt.notes, f.ByScope()[0][i].Notes, "line %d", i)
			}
		})
	}
}

// Regression: each of many decisions took nearly what a run may, which was a second for a pod.
func TestManySlowDecisionsOfAnOverlayEndTogether(t *testing.T) {
	var rows strings.Builder
	for i := range 38 {
		fmt.Fprintf(&rows, "  - {before: ship/none, decision: {name: slow%d, when: \"lines.all(a, lines.all(b, a.price <= b.price)) && customer.tier == 'tin'\", do: Hold, class: Fine}}\n", i)
	}
	chosen := mustRulebook(t, overlay("slow", "  pipeline: p@1.0.0\n  change:\n"+rows.String())).For(document.Subject{})
	require.NoError(t, chosen.Err)
	decide := func(n int) (engine.Verdict, int64) {
		lines := make([]*lang.Record, n)
		for i := range lines {
			lines[i] = lineSchema.New().SetInt("price", 1)
		}
		f := shipPoint.NewFacts().Set("customer", customerSchema.New().SetString("tier", "gold")).Set("lines", lang.ListFrom(lines))
		trace := &engine.Trace{}
		verdict := chosen.Plan.Decide("order.ship", f, trace)
		steps, _ := trace.Spent()
		return verdict, steps[engine.Payer{RuleSet: "ship", Overlay: "slow"}]
	}
	verdict, steps := decide(100)
	require.Equal(t, "ship/some", verdict.Rule, "a list of the length of a large pod")
	require.Less(t, steps, int64(lang.MaxRunSteps))
	verdict, steps = decide(1000)
	require.Equal(t, "Hold", verdict.Do, "the fail-safe outcome of the point")
	require.Equal(t, &engine.Payer{RuleSet: "ship", Overlay: "slow"}, verdict.Err.Slow)
	require.ErrorContains(t, verdict.Err, "; what RuleOverlay slow put into rule set ship is left out for the rest of it")
	require.EqualValues(t, lang.MaxRunSteps+1, steps, "all of them together")
}
