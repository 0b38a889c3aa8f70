package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
)

func TestOverlaysMatchByNamespaceAndLabels(t *testing.T) {
	tests := []struct {
		name, match string
		subject     document.Subject
		want        bool
	}{
		{"a namespace of the list", "{namespaces: [a, b]}", document.Subject{Namespace: "b"}, true},
		{"another namespace", "{namespaces: [a, b]}", document.Subject{Namespace: "c"}, false},
		{"a label", "{orderSelector: {matchLabels: {tier: gold}}}", document.Subject{Labels: map[string]string{"tier": "gold"}}, true},
		{"another value", "{orderSelector: {matchLabels: {tier: gold}}}", document.Subject{Labels: map[string]string{"tier": "tin"}}, false},
		{"no such label", "{orderSelector: {matchLabels: {tier: gold}}}", document.Subject{}, false},
		{"both must hold", "{namespaces: [a], orderSelector: {matchLabels: {tier: gold}}}", document.Subject{Namespace: "b", Labels: map[string]string{"tier": "gold"}}, false},
		{"In", "{orderSelector: {matchExpressions: [{key: tier, operator: In, values: [gold, tin]}]}}", document.Subject{Labels: map[string]string{"tier": "tin"}}, true},
		{"NotIn", "{orderSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [tin]}]}}", document.Subject{Labels: map[string]string{"tier": "tin"}}, false},
		{"NotIn without the label", "{orderSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [tin]}]}}", document.Subject{}, true},
		{"Exists", "{orderSelector: {matchExpressions: [{key: tier, operator: Exists}]}}", document.Subject{Labels: map[string]string{"tier": ""}}, true},
		{"DoesNotExist", "{orderSelector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}}", document.Subject{Labels: map[string]string{"tier": ""}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := mustRulebook(t, overlay("mine", "  pipeline: p@1.0.0\n  match: "+tt.match+"\n  change: [{params: {markup.fee: 0}}]\n"))
			require.Equal(t, tt.want, len(b.For(tt.subject).Plan.Overlays()) == 1)
		})
	}
}

func TestHigherPriorityWinsThenName(t *testing.T) {
	b := mustRulebook(t,
		overlay("zero", "  change: [{params: {markup.fee: 30}}]\n"),
		overlay("above", "  priority: 1\n  match: {namespaces: [a]}\n  change: [{params: {markup.fee: 40}}]\n"),
		overlay("below", "  priority: -1\n  change: [{params: {markup.fee: 20}}]\n"))
	require.Equal(t, int64(130), charge(t, b.For(document.Subject{Namespace: "b"}).Plan))
	require.Equal(t, []string{"below", "zero"}, b.For(document.Subject{Namespace: "b"}).Plan.Overlays())
	require.Equal(t, int64(140), charge(t, b.For(document.Subject{Namespace: "a"}).Plan))
	require.Equal(t, []string{"below", "zero", "above"}, b.For(document.Subject{Namespace: "a"}).Plan.Overlays())

	// Both insert at one place: the later name comes nearer to it, whatever the file order.
	stage := func(name, expression string) string {
		return overlay(name, "  pipeline: p@1.0.0\n  change: [{after: markup/fees, stage: {name: "+name+", each: line, rules: [{name: r, set: {now.price: "+expression+"}}]}}]\n")
	}
	x, y := stage("x", "now.price + 1"), stage("y", "now.price * 2")
	require.Equal(t, int64(221), charge(t, mustRulebook(t, x, y).For(document.Subject{}).Plan))
	require.Equal(t, int64(221), charge(t, mustRulebook(t, y, x).For(document.Subject{}).Plan))
}

func TestConflictingOverlaysAreRefusedWithBothNames(t *testing.T) {
	const fees = "{after: markup/fees, stage: {name: new, each: line, rules: [{name: r, note: x}]}}"
	tests := []struct {
		name, first, second string
		conflict            bool
	}{
		{"one param", "  change: [{params: {markup.fee: 1}}]\n", "  change: [{params: {fee: 2}}]\n", true},
		{"two params", "  pipeline: p@1.0.0\n  change: [{params: {markup.fee: 1}}]\n", "  pipeline: p@1.0.0\n  change: [{params: {caps.limit: 2}}]\n", false},
		{"different namespaces", "  match: {namespaces: [a]}\n  change: [{params: {markup.fee: 1}}]\n", "  match: {namespaces: [b]}\n  change: [{params: {markup.fee: 2}}]\n", false},
		{"a namespace in common", "  match: {namespaces: [a, b]}\n  change: [{params: {markup.fee: 1}}]\n", "  match: {namespaces: [b]}\n  change: [{params: {markup.fee: 2}}]\n", true},
		{"labels that exclude each other", "  match: {orderSelector: {matchLabels: {tier: gold}}}\n  change: [{params: {markup.fee: 1}}]\n",
			"  match: {orderSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [gold]}]}}\n  change: [{params: {markup.fee: 2}}]\n", false},
		{"labels of which an object can have both", "  match: {orderSelector: {matchLabels: {tier: gold}}}\n  change: [{params: {markup.fee: 1}}]\n",
			"  match: {orderSelector: {matchLabels: {area: north}}}\n  change: [{params: {markup.fee: 2}}]\n", true},
		{"different priorities", "  change: [{params: {markup.fee: 1}}]\n", "  priority: 5\n  change: [{params: {markup.fee: 2}}]\n", false},
		{"different pipelines", "  pipeline: p@2.0.0\n  change: [{params: {markup.fee: 1}}]\n", "  pipeline: p@1.0.0\n  change: [{params: {markup.fee: 2}}]\n", false},
		{"a rule below a disabled stage", "  pipeline: p@1.0.0\n  change: [{disable: markup/fees}]\n", "  pipeline: p@1.0.0\n  change: [{replace: markup/fees/add, rule: {note: x}}]\n", true},
		{"an anchor in a disabled set", "  pipeline: p@1.0.0\n  change: [" + fees + "]\n", "  pipeline: p@1.0.0\n  change: [{disable: markup}]\n", true},
		{"a param of a disabled set", "  pipeline: p@1.0.0\n  change: [{params: {markup.fee: 5}}]\n", "  pipeline: p@1.0.0\n  change: [{disable: markup}]\n", true},
		{"one new name twice", "  pipeline: p@1.0.0\n  change: [" + fees + "]\n", "  pipeline: p@1.0.0\n  change: [" + fees + "]\n", true},
		{"two audits try two values", "  mode: Audit\n  change: [{params: {markup.fee: 1}}]\n", "  mode: Warn\n  change: [{params: {markup.fee: 2}}]\n", false},
		{"an audit against what is enforced", "  mode: Audit\n  change: [{params: {markup.fee: 1}}]\n", "  change: [{params: {markup.fee: 2}}]\n", true},
		{"the higher one needs what the lower one disables", "  pipeline: p@1.0.0\n  change: [{disable: markup}]\n", "  pipeline: p@1.0.0\n  priority: 1\n  change: [{params: {markup.limit: 5}}]\n", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rulebook(overlay("one", tt.first), overlay("two", tt.second))
			if !tt.conflict {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			require.Contains(t, err.Error(), "RuleOverlay two")
			if !strings.Contains(tt.name, "higher") {
				require.Contains(t, err.Error(), "RuleOverlay one at o.yaml:")
			}
		})
	}
}

// Each overlay is valid alone; priorities do not matter.
func TestIncompatibleOverlaysAreReportedOnLoad(t *testing.T) {
	const on = "  pipeline: p@1.0.0\n  change: ["
	tests := []struct{ name, first, second, want string }{
		{"both bring a rule of one name", on + "{after: markup/fees/add, rule: {name: extra, note: x}}]\n", "  priority: 1\n" + on + "{after: markup/fees/add, rule: {name: extra, note: y}}]\n",
			`there are two called "extra", from RuleOverlay two and from RuleOverlay one; give one another name (with RuleOverlay one and RuleOverlay two together)`},
		{"both add a rule set", on + "{add: double@1.0.0}]\n", "  priority: 1\n" + on + "{add: double@1.0.0}]\n", "rule set double stands twice at order.adjust"},
		{"one reads a variable that the other takes out",
			on + "{replace: markup/fees, stage: {each: line, rules: [{name: add, note: x}]}}]\n",
			"  priority: -1\n" + on + "{replace: markup/fees, stage: {each: line, variables: {plus: '1'}, rules: [{name: add, note: x}]}}, {after: markup/fees/add, rule: {name: r, when: plus > 0, note: y}}]\n", ""},
		{"a param of a set that the other replaces", on + "{params: {markup.limit: 5}}]\n", "  priority: 1\n" + on + "{replace: markup, ruleSet: double@1.0.0}]\n", ""},
		{"one replaces a set by what the other adds", on + "{replace: markup, ruleSet: double@1.0.0}]\n", on + "{add: double@1.0.0}]\n", "it changes double, and so does RuleOverlay one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rulebook(overlay("one", tt.first), overlay("two", tt.second))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestShadowPlansAccompanyTheEnforcedPlan(t *testing.T) {
	b := mustRulebook(t,
		overlay("enforced", "  change: [{params: {markup.fee: 20}}]\n"),
		overlay("audited", "  pipeline: p@1.0.0\n  mode: Audit\n  match: {namespaces: [a]}\n  change: [{add: double@1.0.0}]\n"),
		overlay("warned", "  pipeline: p@1.0.0\n  mode: Warn\n  priority: -3\n  match: {namespaces: [a]}\n  change: [{before: markup, ruleSet: double@1.0.0}]\n"))
	got := b.For(document.Subject{Namespace: "a"})
	require.Equal(t, int64(120), charge(t, got.Plan))
	require.Len(t, got.Shadows, 2)
	require.Equal(t, []string{"warned", "audited"}, []string{got.Shadows[0].Overlay, got.Shadows[1].Overlay})
	require.Equal(t, []string{document.ModeWarn, document.ModeAudit}, []string{got.Shadows[0].Mode, got.Shadows[1].Mode})
	require.Equal(t, []string{"warned", "enforced"}, got.Shadows[0].Plan.Overlays(), "where it would stand if it were enforced")
	require.Equal(t, int64(220), charge(t, got.Shadows[0].Plan))
	require.Equal(t, int64(240), charge(t, got.Shadows[1].Plan))
	require.Empty(t, b.For(document.Subject{Namespace: "b"}).Shadows)
}

func TestObjectsPinAPipeline(t *testing.T) {
	b := mustRulebook(t, overlay("one", "  pipeline: p@1.0.0\n  change: [{params: {markup.fee: 0}}]\n"))
	require.Equal(t, int64(100), charge(t, b.For(document.Subject{}).Plan))
	require.Equal(t, int64(120), charge(t, b.For(document.Subject{Pipeline: "p@2.0.0"}).Plan), "the overlay is not meant for it")
	unknown := b.For(document.Subject{Pipeline: "p@3.0.0"})
	require.EqualError(t, unknown.Err, `pipeline "p@3.0.0" is not loaded; write it as name@version, there is p@1.0.0, p@2.0.0; --pipelines and --rules-dir load others`)
	require.Same(t, b.Default(), unknown.Plan)
	require.Equal(t, []string{"p@1.0.0", "p@2.0.0"}, []string{b.Plans()[0].Pipeline(), b.Plans()[1].Pipeline()})
	require.Same(t, b.For(document.Subject{}).Plan, b.For(document.Subject{Namespace: "x"}).Plan, "compiled once")
}

// Run under the race detector: combinations compile while overlays are added.
func TestRulebookIsSafeForConcurrentUse(t *testing.T) {
	b := mustRulebook(t,
		overlay("gold", "  match: {orderSelector: {matchLabels: {tier: gold}}}\n  change: [{params: {markup.fee: 20}}]\n"),
		overlay("north", "  pipeline: p@1.0.0\n  match: {namespaces: [north]}\n  change: [{params: {caps.limit: 105}}]\n"),
		overlay("tried", "  mode: Audit\n  priority: 1\n  change: [{params: {markup.fee: 0}}]\n"))
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			s := document.Subject{Labels: map[string]string{"tier": "gold"}}
			want := int64(120)
			if i%2 == 0 {
				s.Namespace, want = "north", 105
			}
			got := b.For(s)
			if price := charge(t, got.Plan); price != want {
				t.Errorf("%v costs %d, want %d", s, price, want)
			}
			if price := charge(t, got.Shadows[0].Plan); price != 100 {
				t.Errorf("%v would cost %d, want 100", s, price)
			}
		})
		group.Go(func() {
			o, err := document.Loader{}.Overlay("more.yaml", []byte(strings.TrimPrefix(overlay("more", "  priority: 2\n  change: [{params: {markup.fee: 50}}]\n"), "---\n")))
			if err != nil {
				t.Error(err)
				return
			}
			next, err := b.With(o)
			if err != nil {
				t.Error(err)
				return
			}
			if price := charge(t, next.For(document.Subject{}).Plan); price != 150 {
				t.Errorf("with one more overlay it costs %d, want 150", price)
			}
		})
	}
	group.Wait()
}

func TestOverlaysOverrideGivenParams(t *testing.T) {
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"a.yaml": {Data: []byte(shopRules + overlay("mine", "  match: {namespaces: [a]}\n  change: [{params: {markup.fee: 3}}]\n"))}}})
	require.NoError(t, err)
	b, err := compile.NewRulebook(lib, shop(), compile.Options{Pipeline: "p@1.0.0", Params: map[string]string{"markup.fee": "7"}})
	require.NoError(t, err)
	require.Equal(t, int64(107), charge(t, b.For(document.Subject{}).Plan))
	require.Equal(t, int64(103), charge(t, b.For(document.Subject{Namespace: "a"}).Plan))
	_, err = compile.NewRulebook(lib, shop(), compile.Options{Pipeline: "p@1.0.0", Params: map[string]string{"markup.fees": "7"}})
	require.ErrorContains(t, err, `no parameter "markup.fees" in any pipeline`)
	b, err = compile.NewRulebook(lib, shop(), compile.Options{Pipeline: "p"})
	require.NoError(t, err)
	require.Equal(t, "p@2.0.0", b.Default().Pipeline(), "a name alone is its highest version")
}

// FuzzOverlaysNeverPanic merges fuzzed overlays into the shop's pipelines and requests plans.
func FuzzOverlaysNeverPanic(f *testing.F) {
	for _, change := range []string{
		"{params: {markup.fee: 0}}", "{disable: markup/fees}", "{replace: markup, ruleSet: double@1.0.0}", "{after: markup/fees/add, rule: {name: r, note: x}}",
		"{before: ship, decision: {name: ask, do: Ask}}", "{add: double@1.0.0}, {disable: double}", "{after: markup, stage: {", "{disable: /}", "{after: markup//, rule: {note: []}}",
	} {
		f.Add("  change: ["+change+"]\n", "  mode: Audit\n  change: [{disable: markup/fees}]\n")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		b, err := rulebook(overlay("one", first), overlay("two", second))
		if err != nil {
			return
		}
		for _, s := range []document.Subject{{}, {Namespace: "a", Pipeline: "p@2.0.0"}, {Labels: map[string]string{"tier": "gold"}}} {
			got := b.For(s)
			got.Plan.RunStages("order.adjust", order(100), &engine.Trace{})
			for _, shadow := range got.Shadows {
				shadow.Plan.RunStages("order.adjust", order(100), nil)
			}
		}
	})
}

// Two overlays in different rule sets of one point were in use, and objects that matched both got no
// rules: what they cost together was found when it was too late.
func TestOverlaysThatCostTooMuchTogetherAreRefused(t *testing.T) {
	dear := func(name, set, match string, rules int) string {
		return overlay(name, "  pipeline: p@1.0.0\n"+match+"  change:\n  - after: "+set+"\n    stage:\n      name: "+name+"\n      each: line\n      rules:\n"+
			strings.ReplaceAll(manyRules(rules, "{now.price: sum(customer.tags.map(x, sum(customer.tags.map(y, sum(customer.tags.map(z, size(z)))))))}"), "    -", "        -"))
	}
	const gold, tin = "  match: {orderSelector: {matchLabels: {tier: gold}}}\n", "  match: {orderSelector: {matchLabels: {tier: tin}}}\n"
	tests := []struct {
		name, first, second string
		refused             bool
	}{
		{"for all objects", dear("one", "markup", "", 12), dear("two", "caps", "", 12), true},
		{"of labels that one object can have", dear("one", "markup", gold, 12), dear("two", "caps", "", 12), true},
		{"of labels that no object can have", dear("one", "markup", gold, 12), dear("two", "caps", tin, 12), false},
		{"with an audit, which changes nothing", dear("one", "markup", "", 12), dear("two", "caps", "  mode: Audit\n", 12), false},
		{"little", dear("one", "markup", "", 12), dear("two", "caps", "", 1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := rulebook(tt.first, tt.second)
			if tt.refused {
				require.ErrorContains(t, err, "RuleOverlay two: with RuleOverlay one, which one object may match too, the rules at order.adjust may take")
				return
			}
			require.NoError(t, err)
			require.NoError(t, b.For(document.Subject{Labels: map[string]string{"tier": "gold"}}).Err)
		})
	}
}

// Beyond 1000 combinations of overlays all were dropped, and what needed them all in turn compiled
// them again each time: 400 namespaces with an overlay of their own and three audits of all objects
// took 10 s of CPU in each cycle.
func TestAuditsOfManyNamespacesAreCompiledOnce(t *testing.T) {
	var overlays []string
	for i := range 60 {
		overlays = append(overlays, overlay(fmt.Sprintf("own-%d", i), fmt.Sprintf("  match: {namespaces: [n%d]}\n  change: [{params: {markup.fee: %d}}]\n", i, i)))
	}
	for i := range 20 {
		overlays = append(overlays, overlay(fmt.Sprintf("tried-%d", i), fmt.Sprintf("  mode: Audit\n  pipeline: p@1.0.0\n  change: [{after: caps, stage: {name: tried-%d, each: line, rules: [{name: r, note: x}]}}]\n", i)))
	}
	b := mustRulebook(t, overlays...)
	var first []compile.Shadow
	for pass := range 2 {
		var all []compile.Shadow
		for i := range 60 {
			selected := b.For(document.Subject{Namespace: fmt.Sprintf("n%d", i)})
			require.NoError(t, selected.Err)
			require.Len(t, selected.Shadows, 20)
			all = append(all, selected.Shadows...)
		}
		if pass == 0 {
			first = all
			continue
		}
		for i := range all {
			require.Same(t, first[i].Plan, all[i].Plan)
		}
	}
}

// Whoever labels objects must not fill the memory.
func TestCombinationsOfLabelsAreForgotten(t *testing.T) {
	var overlays []string
	for i := range 11 {
		overlays = append(overlays, overlay(fmt.Sprintf("l%d", i), fmt.Sprintf("  pipeline: p@1.0.0\n  match: {orderSelector: {matchLabels: {l%d: x}}}\n  change: [{after: caps, stage: {name: l%d, each: line, rules: [{name: r, note: x}]}}]\n", i, i)))
	}
	b := mustRulebook(t, overlays...)
	labelled := func(combination int) *engine.Plan {
		labels := map[string]string{}
		for i := range 11 {
			if combination>>i&1 == 1 {
				labels[fmt.Sprintf("l%d", i)] = "x"
			}
		}
		selected := b.For(document.Subject{Labels: labels})
		require.NoError(t, selected.Err)
		require.Len(t, selected.Plan.Overlays(), len(labels))
		return selected.Plan
	}
	first := labelled(3)
	for combination := range 1 << 11 {
		labelled(combination)
	}
	again := labelled(3)
	require.NotSame(t, first, again)
	require.Equal(t, first.Digest(), again.Digest())
}
