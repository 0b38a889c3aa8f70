package engine_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

func TestOneSetIsSimultaneousAndRulesAreSequential(t *testing.T) {
	plan := mustCompile(t, "order.adjust", `
  stages:
  - name: swap
    each: line
    rules:
    - {name: init, set: {now.before: "7"}}
    - {name: swap, set: {now.price: now.before, now.before: now.price}}
    - {name: after, set: {now.price: now.price + 1}}
`, compile.Options{})
	f := order(100)
	require.Empty(t, plan.RunStages("order.adjust", f, nil))
	require.EqualValues(t, 8, price(t, line(f, 0)))
	before, _ := line(f, 0).Int("before")
	require.EqualValues(t, 100, before)
}

func TestStagesRunForEachItemAndConditionsHold(t *testing.T) {
	plan := mustCompile(t, "order.adjust", `
  stages:
  - name: cap
    each: line
    when: customer.tier == 'gold'
    variables: {limit: "cents('150')", half: limit / 2}
    rules:
    - {name: cap, when: now.price > limit, set: {now.price: half}, note: capped}
  - name: sum
    rules:
    - {name: total, set: {total.price: "mulDivFloor(count, 10, 3)", total.free: "true"}}
`, compile.Options{})
	f := order(100, 200)
	trace := &engine.Trace{}
	require.Empty(t, plan.RunStages("order.adjust", f, trace))
	require.EqualValues(t, 100, price(t, line(f, 0)))
	require.EqualValues(t, 75, price(t, line(f, 1)))
	require.Empty(t, f.ByScope()[0][0].Notes)
	require.Equal(t, []string{"capped"}, f.ByScope()[0][1].Notes)

	require.Len(t, trace.Steps(), 3)
	require.Equal(t, engine.Step{
		RuleSet: "s", Version: "1.0.0", Stage: "cap", Rule: "cap", At: "s.yaml:14:14",
		Item: "line-1", Field: "now.price", From: "200c", To: "75c", Reason: "capped",
	}, trace.Steps()[0])
	last, ok := trace.Last("line-1", "now.price")
	require.True(t, ok)
	require.Equal(t, "s/cap/cap", last.Path())
	_, ok = trace.Last("line-0", "now.price")
	require.False(t, ok)
}

func TestFactsAndItemsReportWhatRulesWroteTo(t *testing.T) {
	plan := mustCompile(t, "order.adjust", `
  stages:
  - name: dear
    each: line
    rules:
    - {name: cheaper, when: now.price > 150, set: {now.price: "150"}}
    - {name: failing, when: now.price > 50, set: {now.price: now.before}}
    - {name: free, when: now.price == 1, set: {total.free: "true"}}
`, compile.Options{})
	for _, tt := range []struct {
		prices []int64
		total  bool
		items  []bool
	}{
		{[]int64{100, 200}, false, []bool{false, true}}, {[]int64{1}, true, []bool{false}}, {nil, false, nil},
	} {
		f := order(tt.prices...)
		plan.RunStages("order.adjust", f, nil)
		require.Equal(t, tt.total, f.Written)
		for i, item := range f.Items("line") {
			require.Equal(t, tt.items[i], item.Written)
		}
	}
}

func TestReadingAnUnsetFieldFailsWithoutHas(t *testing.T) {
	plan := mustCompile(t, "order.adjust", `
  stages:
  - name: one
    each: line
    rules:
    - {name: guarded, when: has(now.weight), set: {now.price: "1"}}
    - {name: nested, when: "!has(customer.discount.price)", set: {now.price: "2"}}
    - {name: unguarded, set: {now.price: now.before, now.weight: "5"}}
    - {name: later, set: {now.price: now.price + 1}}
    - {name: drop, unset: [now.price]}
    - {name: dropped, when: "!has(now.price)", set: {now.weight: "9"}}
`, compile.Options{})
	f := order(100)
	trace := &engine.Trace{}
	failed := plan.RunStages("order.adjust", f, trace)
	require.Len(t, failed, 1)
	require.Equal(t, "s/one/unguarded", failed[0].Path)
	require.Equal(t, "line-0", failed[0].Item)
	require.ErrorContains(t, failed[0], "before is not set; guard it with has(), or give a default: .?before.orValue(…)")
	_, ok := line(f, 0).Int("price")
	require.False(t, ok, "the last rules dropped the price")
	w, _ := line(f, 0).Int("weight")
	require.EqualValues(t, 9, w, "a failed rule writes none of its fields")

	var prices []string
	for _, s := range trace.Steps() {
		if s.Field == "now.price" {
			prices = append(prices, s.Rule+" "+s.To)
		}
	}
	require.Equal(t, []string{"nested 2c", "later 3c", "drop unset"}, prices)
}

func TestFailingConditionStopsOnlyItsRuleOrStage(t *testing.T) {
	plan := mustCompile(t, "order.adjust", `
  stages:
  - name: bad
    each: line
    when: now.weight > 0
    rules: [{name: never, set: {now.price: "0"}}]
  - name: good
    each: line
    rules:
    - {name: divide, set: {now.price: "mulDivFloor(1, 1, count - count)"}}
    - {name: fine, set: {now.price: now.price + 1}}
`, compile.Options{})
	f := order(10)
	failed := plan.RunStages("order.adjust", f, nil)
	require.Len(t, failed, 2)
	require.Equal(t, "s/bad/when", failed[0].Path)
	require.ErrorContains(t, failed[1], "division by zero")
	require.EqualValues(t, 11, price(t, line(f, 0)))
}

func TestStageMayStopAtItsFirstFailure(t *testing.T) {
	plan := mustCompile(t, "order.adjust", `
  stages:
  - name: one
    each: line
    onError: SkipStage
    rules:
    - {name: first, set: {now.price: now.price + 1}}
    - {name: fails, set: {now.price: now.before}}
    - {name: never, set: {now.price: "0"}}
  - {name: two, each: line, rules: [{name: next, set: {now.price: now.price * 2}}]}
`, compile.Options{})
	f := order(10)
	require.Len(t, plan.RunStages("order.adjust", f, nil), 1)
	require.EqualValues(t, 22, price(t, line(f, 0)))
}

func TestReasonMayBeAnExpression(t *testing.T) {
	plan := mustCompile(t, "order.ship", `
  decisions:
  - {name: tier, when: has(customer.tier), do: Ship, reasonExpression: "'the customer is ' + customer.tier"}
  - {name: none, do: Hold, reason: no tier, reasonExpression: "'the customer is ' + customer.tier"}
`, compile.Options{})
	require.Equal(t, "the customer is gold", plan.Decide("order.ship", shipment("gold"), nil).Reason)
	require.Equal(t, "no tier", plan.Decide("order.ship", shipment(""), nil).Reason, "the written reason is used when the expression fails")
}

// TestUntilNeedsATrace: what has to happen for another decision is for explanations only.
func TestUntilNeedsATrace(t *testing.T) {
	plan := mustCompile(t, "order.ship", `
  decisions:
  - {name: tier, when: "customer.?tier.orValue('') == 'gold'", do: Hold, untilExpression: "'not ' + customer.tier"}
  - {name: none, do: Hold, until: a tier, untilExpression: "'not ' + customer.tier"}
`, compile.Options{})
	require.Equal(t, "not gold", plan.Decide("order.ship", shipment("gold"), &engine.Trace{}).Until)
	require.Equal(t, "a tier", plan.Decide("order.ship", shipment(""), &engine.Trace{}).Until, "the written text is used when the expression fails")
	require.Empty(t, plan.Decide("order.ship", shipment("gold"), nil).Until)
}

func TestVariablesAreComputedOnceAndAgainAfterAWrite(t *testing.T) {
	plan := mustCompile(t, "order.adjust", `
  stages:
  - name: one
    each: line
    variables: {double: now.price * 2}
    rules:
    - {name: a, set: {now.price: double}}
    - {name: b, set: {now.price: double}}
`, compile.Options{})
	f := order(5)
	require.Empty(t, plan.RunStages("order.adjust", f, nil))
	require.EqualValues(t, 20, price(t, line(f, 0)))
}

const shipping = `
  variables: {heavy: "lines.exists(l, has(l.weight) && l.weight > 100)"}
  decisions:
  - {name: too-heavy, when: heavy, do: Ask, reason: One line is heavy}
  - {name: vouchers, when: gates.Vouchers && customer.tier == 'none', do: Hold}
  - {name: gold, when: customer.tier == 'gold', do: Ship}
`

func shipment(tier string, weights ...int64) *registry.Facts {
	var lines []*lang.Record
	for _, w := range weights {
		lines = append(lines, lineSchema.New().SetInt("weight", w))
	}
	c := customerSchema.New()
	if tier != "" {
		c.SetString("tier", tier)
	}
	return shipPoint.NewFacts().Set("customer", c).Set("lines", lang.Records(lines))
}

func TestFirstMatchingDecisionWins(t *testing.T) {
	plan := mustCompile(t, "order.ship", shipping, compile.Options{})
	require.Equal(t, engine.Verdict{Do: "Ask", Rule: "s/too-heavy", Reason: "One line is heavy"}, plan.Decide("order.ship", shipment("gold", 5, 500), nil))
	require.Equal(t, engine.Verdict{Do: "Ship", Rule: "s/gold", Reason: "gold"}, plan.Decide("order.ship", shipment("gold", 5), nil))
	require.Equal(t, engine.Verdict{Do: "Hold", Rule: "default", Reason: "no decision matched"}, plan.Decide("order.ship", shipment("tin"), nil))
	require.Equal(t, "default", plan.Decide("order.ship", shipment("none"), nil).Rule, "the gate is off")
	on := mustCompile(t, "order.ship", shipping, compile.Options{Gates: map[string]bool{"Vouchers": true}})
	require.Equal(t, "s/vouchers", on.Decide("order.ship", shipment("none"), nil).Rule)
}

func TestFailingDecisionFallsBackToTheFailSafe(t *testing.T) {
	plan := mustCompile(t, "order.ship", shipping, compile.Options{})
	verdict := plan.Decide("order.ship", shipment(""), nil)
	require.Equal(t, "Hold", verdict.Do)
	require.Equal(t, "s/gold", verdict.Rule)
	require.ErrorContains(t, verdict.Err, "tier is not set")
}

func TestValidationsReportEveryViolationAtItsPath(t *testing.T) {
	plan := mustCompile(t, "order.validate", `
  validations:
  - name: priced
    at: lines[*]
    enforce: [Admission]
    when: self.kind == 'sale'
    expression: self.price > 0
    message: a line needs a price
    messageExpression: "'the price is ' + string(self.price)"
    fieldPath: .price
    reason: FieldValueRequired
  - {name: not-empty, enforce: [Schema, Admission], expression: size(self.lines) > 0, message: an order needs lines, fieldPath: .lines}
  - {name: gate, enforce: [Admission], expression: gates.Vouchers || !has(self.voucher), message: vouchers are off, fieldPath: .voucher, reason: FieldValueForbidden}
`, compile.Options{})
	sale := func(price any) any { return map[string]any{"kind": "sale", "price": price} }
	got := plan.Validate("order.validate", engine.Judged{Object: map[string]any{
		"lines": []any{sale(1), sale(0), map[string]any{"kind": "gift"}, map[string]any{"kind": "sale"}}, "voucher": "x",
	}}, nil)
	require.Equal(t, []engine.Violation{
		{Rule: "s/priced", Path: "lines[1].price", Self: "lines[1]", Reason: "FieldValueRequired", Message: "the price is 0"},
		{Rule: "s/priced", Path: "lines[3].price", Self: "lines[3]", Reason: "FieldValueRequired", Message: "the rule failed: no such key: price", Failed: true},
		{Rule: "s/gate", Path: "voucher", Reason: "FieldValueForbidden", Message: "vouchers are off", Gated: true},
	}, got)
	got = plan.Validate("order.validate", engine.Judged{Object: map[string]any{"lines": []any{}}}, nil)
	require.Equal(t, []engine.Violation{{Rule: "s/not-empty", Path: "lines", Reason: "FieldValueInvalid", Message: "an order needs lines"}}, got)
}

func TestPlanIsSafeForConcurrentUse(t *testing.T) {
	plan := mustCompile(t, "order.adjust", `
  params: [{name: step, type: cents, default: "3"}]
  stages:
  - {name: s, each: line, variables: {next: "add(now.price, params.step)"}, rules: [{name: r, set: {now.price: next}}]}
`, compile.Options{})
	var wg sync.WaitGroup
	results := make([]int64, 8)
	for g := range results {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f := order(int64(g))
			for range 500 {
				plan.RunStages("order.adjust", f, nil)
			}
			results[g], _ = line(f, 0).Int("price")
		}()
	}
	wg.Wait()
	for g, got := range results {
		require.EqualValues(t, g+1500, got)
	}
}

func TestVariablesMayBeDeclaredInAnyOrderWithoutCycles(t *testing.T) {
	const body = "\n  stages:\n  - name: a\n    each: line\n    variables: {%s}\n    rules: [{name: r, set: {now.price: c}}]\n"
	plan := mustCompile(t, "order.adjust", fmt.Sprintf(body, "c: b * 2, b: a + 1, a: now.price"), compile.Options{})
	f := order(10)
	require.Empty(t, plan.RunStages("order.adjust", f, nil))
	require.Equal(t, int64(22), price(t, line(f, 0)))

	_, err := compileOne("order.adjust", fmt.Sprintf(body, "c: b * 2, b: a + 1, a: c"), compile.Options{})
	require.ErrorContains(t, err, "s.yaml:11:20: RuleSet s@1.0.0, stage a, variable c: variables depend on each other in a cycle: c → b → a → c")
	_, err = compileOne("order.adjust", fmt.Sprintf(body, "c: c + 1"), compile.Options{})
	require.ErrorContains(t, err, "in a cycle: c → c")
}
