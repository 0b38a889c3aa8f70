package engine_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
)

// shopRules is a small policy for the overlays of these tests.
const shopRules = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: Pipeline
metadata: {name: p}
spec:
  version: 1.0.0
  points: {order.adjust: [markup@1.0.0, caps@1.0.0], order.ship: [ship@1.0.0], order.validate: [valid@1.0.0]}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: Pipeline
metadata: {name: p}
spec:
  version: 2.0.0
  points: {order.adjust: [markup@2.0.0], order.ship: [], order.validate: []}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: markup}
spec:
  version: 1.0.0
  point: order.adjust
  params: [{name: fee, type: cents, default: 10, min: 0, max: 1000}, {name: limit, type: int, default: 3}]
  stages:
  - name: fees
    each: line
    rules:
    - {name: add, set: {now.price: now.price + params.fee}}
    - {name: many, when: count > params.limit, set: {now.price: now.price + 1}}
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: markup}
spec:
  version: 2.0.0
  point: order.adjust
  params: [{name: fee, type: cents, default: 20}]
  stages: [{name: fees, each: line, rules: [{name: add, set: {now.price: now.price + params.fee}}]}]
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: caps}
spec:
  version: 1.0.0
  point: order.adjust
  params: [{name: limit, type: cents, default: 500}]
  stages:
  - name: cap
    each: line
    rules: [{name: most, when: now.price > params.limit, set: {now.price: params.limit}}]
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: double}
spec:
  version: 1.0.0
  point: order.adjust
  stages: [{name: twice, each: line, rules: [{name: x2, set: {now.price: now.price * 2}}]}]
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: ship}
spec:
  version: 1.0.0
  point: order.ship
  decisions: [{name: none, when: size(lines) == 0, do: Hold}, {name: some, do: Ship}]
---
apiVersion: rules.celvpa.dev/v1alpha1
kind: RuleSet
metadata: {name: valid}
spec:
  version: 1.0.0
  point: order.validate
  validations: [{name: named, enforce: [Admission], expression: has(self.name), message: give it a name}]
`

// overlay returns a document with the given spec, indented by two spaces.
func overlay(name, spec string) string {
	return "---\napiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleOverlay\nmetadata: {name: " + name + "}\nspec:\n" + spec
}

// overlayLayer has all overlays in one file, and no file without any.
func overlayLayer(overlays []string) document.Layer {
	files := fstest.MapFS{}
	if text := strings.Join(overlays, ""); text != "" {
		files["o.yaml"] = &fstest.MapFile{Data: []byte(text)}
	}
	return document.Layer{FS: files}
}

func shopLibrary(overlays ...string) (*document.Library, error) {
	return document.Loader{SelectorKey: "orderSelector"}.Load(
		document.Layer{FS: fstest.MapFS{"base.yaml": {Data: []byte(shopRules)}}},
		overlayLayer(overlays))
}

func rulebook(overlays ...string) (*compile.Rulebook, error) {
	lib, err := shopLibrary(overlays...)
	if err != nil {
		return nil, err
	}
	return compile.NewRulebook(lib, shop(), compile.Options{Pipeline: "p@1.0.0"})
}

func mustRulebook(t testing.TB, overlays ...string) *compile.Rulebook {
	t.Helper()
	b, err := rulebook(overlays...)
	require.NoError(t, err)
	return b
}

// charge is the price of one line of 100 under a plan.
func charge(t testing.TB, plan *engine.Plan) int64 {
	t.Helper()
	f := order(100)
	require.Empty(t, plan.RunStages("order.adjust", f, nil))
	return price(t, line(f, 0))
}

func TestOverlaysChangeOneThingEach(t *testing.T) {
	tests := []struct {
		name, change string
		want         int64
	}{
		{"a param of a named set", "{params: {markup.fee: 50}}", 150},
		{"a param that one set has", "{params: {fee: 50}}", 150},
		{"a rule set is disabled", "{disable: markup}", 100},
		{"a set with its version", "{disable: markup@1.0.0}", 100},
		{"the only stage of a set is disabled", "{disable: markup/fees}", 100},
		{"a rule is disabled", "{disable: markup/fees/add}", 100},
		{"a rule set is replaced", "{replace: markup, ruleSet: double@1.0.0}", 200},
		{"a stage is replaced and keeps its name", "{replace: markup/fees, stage: {each: line, rules: [{name: add, set: {now.price: now.price + params.fee * 2}}]}}", 120},
		{"a rule is replaced", "{replace: markup/fees/add, rule: {set: {now.price: now.price - params.fee}}}", 90},
		{"a rule set before another", "{before: markup, ruleSet: double@1.0.0}", 210},
		{"a rule set after another", "{after: markup, ruleSet: double@1.0.0}", 220},
		{"a rule set at the end", "{add: double@1.0.0}", 220},
		{"a stage at the beginning of a set", "{before: markup, stage: {name: x, each: line, rules: [{name: r, set: {now.price: now.price * 2}}]}}", 210},
		{"a stage at the end of a set", "{after: markup, stage: {name: x, each: line, rules: [{name: r, set: {now.price: now.price * 2}}]}}", 220},
		{"a stage before a stage", "{before: markup/fees, stage: {name: x, each: line, rules: [{name: r, set: {now.price: now.price * 2}}]}}", 210},
		{"a rule after a rule", "{after: markup/fees/add, rule: {name: r, set: {now.price: now.price * 2}}}", 220},
		{"a rule before a rule", "{before: markup/fees/add, rule: {name: r, set: {now.price: now.price * 2}}}", 210},
		{"a rule at the end of a stage", "{after: markup/fees, rule: {name: r, set: {now.price: now.price * 2}}}", 220},
		{"a rule at the beginning of a stage", "{before: markup/fees, rule: {name: r, set: {now.price: now.price * 2}}}", 210},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := mustRulebook(t, overlay("mine", "  pipeline: p@1.0.0\n  change: ["+tt.change+"]\n"))
			got := b.For(document.Subject{})
			require.NoError(t, got.Err)
			require.Equal(t, []string{"mine"}, got.Plan.Overlays())
			require.Equal(t, tt.want, charge(t, got.Plan))
			require.NotEqual(t, b.Default().Digest(), got.Plan.Digest())
			require.Equal(t, int64(110), charge(t, b.Default()), "the base is as it was")
		})
	}
}

func TestOverlaysChangeDecisionsAndValidations(t *testing.T) {
	decide := func(changes string) engine.Verdict {
		b := mustRulebook(t, overlay("mine", "  pipeline: p@1.0.0\n  change: ["+changes+"]\n"))
		return b.For(document.Subject{}).Plan.Decide("order.ship", shipPoint.NewFacts().Set("customer", customerSchema.New()).Set("lines", lang.Records(nil)), nil)
	}
	require.Equal(t, "ship/none", decide("{params: {markup.fee: 1}}").Rule)
	require.Equal(t, "ship/some", decide("{disable: ship/none}").Rule)
	require.Equal(t, "ship/ask", decide("{before: ship/none, decision: {name: ask, do: Ask}}").Rule)
	require.Equal(t, "ship/ask", decide("{before: ship, decision: {name: ask, do: Ask}}").Rule)
	require.Equal(t, "ship/none", decide("{after: ship/none, decision: {name: ask, do: Ask}}").Rule)
	require.Equal(t, "Ask", decide("{replace: ship/none, decision: {when: size(lines) == 0, do: Ask}}").Do)

	validate := func(changes string) (out []string) {
		b := mustRulebook(t, overlay("mine", "  pipeline: p@1.0.0\n  change: ["+changes+"]\n"))
		for _, v := range b.For(document.Subject{}).Plan.Validate("order.validate", engine.Judged{Object: map[string]any{}}, nil) {
			out = append(out, v.Rule)
		}
		return out
	}
	const priced = "validation: {name: priced, enforce: [Admission], expression: has(self.price), message: give it a price}}"
	require.Equal(t, []string{"valid/named", "valid/priced"}, validate("{after: valid, "+priced))
	require.Equal(t, []string{"valid/priced", "valid/named"}, validate("{before: valid/named, "+priced))
	require.Equal(t, []string{"valid/priced"}, validate("{replace: valid/named, "+priced))
	require.Empty(t, validate("{disable: valid/named}"))
}

func TestOverlayChangesApplyInOrder(t *testing.T) {
	b := mustRulebook(t, overlay("mine", `
  pipeline: p@1.0.0
  change:
  - {after: markup/fees, stage: {name: extra, each: line, rules: [{name: r, set: {now.price: now.price + 5}}]}}
  - {after: markup/extra/r, rule: {name: q, set: {now.price: now.price * 3}}}
  - {params: {markup.fee: 0}}
`))
	require.Equal(t, int64(315), charge(t, b.For(document.Subject{}).Plan))
}

// Two overlays remove the stage's rules and a third adds one.
func TestEmptyStageIsDroppedOnlyAfterAllOverlays(t *testing.T) {
	b := mustRulebook(t,
		overlay("a-add", "  pipeline: p@1.0.0\n  change: [{disable: markup/fees/add}]\n"),
		overlay("b-many", "  pipeline: p@1.0.0\n  change: [{disable: markup/fees/many}]\n"),
		overlay("c-own", "  pipeline: p@1.0.0\n  change: [{after: markup/fees, rule: {name: own, set: {now.price: now.price + 7}}}]\n"))
	got := b.For(document.Subject{})
	require.NoError(t, got.Err)
	require.Equal(t, int64(107), charge(t, got.Plan))
	b = mustRulebook(t, overlay("a", "  pipeline: p@1.0.0\n  change: [{disable: caps/cap}, {after: caps, stage: {name: own, each: line, rules: [{name: r, set: {now.price: now.price + 1}}]}}]\n"))
	require.Equal(t, int64(111), charge(t, b.For(document.Subject{}).Plan), "a set whose only stage is gone takes another")
}

func TestTwoVersionsOfARuleSetDoNotRunAtOnePoint(t *testing.T) {
	_, err := rulebook(overlay("mine", "  pipeline: p@1.0.0\n  change: [{after: markup, ruleSet: markup@2.0.0}]\n"))
	require.ErrorContains(t, err, "rule set markup stands twice at order.adjust; of several versions one can run there")
}

func TestStageWithoutRulesIsDropped(t *testing.T) {
	b := mustRulebook(t, overlay("mine", "  pipeline: p@1.0.0\n  change: [{disable: markup/fees/add}, {disable: markup/fees/many}]\n"))
	plan := b.For(document.Subject{}).Plan
	require.Equal(t, []string{"order.adjust: rule set markup@1.0.0 no longer runs"}, engine.Diff(b.Default(), plan))
	var text strings.Builder
	require.NoError(t, plan.Render(&text))
	_, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"all.yaml": {Data: []byte(text.String())}}})
	require.NoError(t, err, "what is rendered can be loaded")
}

func TestOverlayAppliesOnlyToItsPipeline(t *testing.T) {
	lib, err := shopLibrary(overlay("mine", "  pipeline: p@2.0.0\n  change: [{params: {markup.fee: 1}}]\n"))
	require.NoError(t, err)
	_, err = compile.Compile(lib, shop(), compile.Options{Pipeline: "p@1.0.0"}, "mine")
	require.EqualError(t, err, "overlay mine is meant for pipeline p@2.0.0, not for p@1.0.0")
	_, err = compile.Compile(lib, shop(), compile.Options{Pipeline: "p@1.0.0"}, "yours")
	require.EqualError(t, err, `no overlay "yours"; loaded: mine`)
}

// The flags of the process do not know about overlays.
func TestParamsForADisabledRuleSetAreAccepted(t *testing.T) {
	lib, err := shopLibrary(overlay("mine", "  pipeline: p@1.0.0\n  change: [{disable: caps}]\n"))
	require.NoError(t, err)
	_, err = compile.Compile(lib, shop(), compile.Options{Pipeline: "p@1.0.0", Params: map[string]string{"caps.limit": "7"}}, "mine")
	require.NoError(t, err)
}

func TestExpectedDigestPinsTheReplacedPart(t *testing.T) {
	b := mustRulebook(t)
	resolved := b.Default().Parts().Resolved
	at, err := resolved.Find("markup/fees/add")
	require.NoError(t, err)
	digest := resolved.DigestAt(at)
	disable := func(digest string) string {
		return overlay("mine", "  pipeline: p@1.0.0\n  change: [{disable: markup/fees/add, digest: "+digest+"}]\n")
	}
	mustRulebook(t, disable(digest))
	_, err = rulebook(disable("abc"))
	require.ErrorContains(t, err, "o.yaml:7:22: RuleOverlay mine: markup/fees/add is not what this change was written for: its digest is "+digest+", not abc")
}

func TestOverlayFaultsAreReportedInPlace(t *testing.T) {
	tests := []struct{ name, spec, want string }{
		{"nothing", "  mode: Audit\n", "spec.change is required"},
		{"an unknown mode", "  mode: Try\n  change: [{disable: markup}]\n", `o.yaml:6:9: RuleOverlay mine: mode "Try" is not known; use Enforce, Warn, Audit`},
		{"a broken priority", "  priority: high\n  change: [{disable: markup}]\n", `priority "high" is not a whole number`},
		{"two verbs", "  change: [{disable: markup, add: double@1.0.0}]\n", "a change has exactly one of use, params, disable, replace, before, after and add"},
		{"no verb", "  change: [{ruleSet: double@1.0.0}]\n", "a change has exactly one of"},
		{"a verb without its object", "  change: [{after: markup}]\n", "after comes with exactly one of ruleSet, stage, rule, decision and validation"},
		{"a part too many", "  change: [{disable: markup, ruleSet: double@1.0.0}]\n", "disable comes without a ruleSet"},
		{"a pipeline that does not exist", "  pipeline: q\n  change: [{disable: markup}]\n", `o.yaml:6:13: RuleOverlay mine: pipeline "q" is not loaded; there is p@1.0.0, p@2.0.0`},
		{"a set that does not exist", "  pipeline: p@1.0.0\n  change: [{disable: marking}]\n", `o.yaml:7:22: RuleOverlay mine: pipeline p@1.0.0 has no rule set "marking"; it has markup@1.0.0, caps@1.0.0`},
		{"a set that one of the pipelines lacks", "  change: [{disable: caps}]\n", "pipeline p@2.0.0 has no rule set \"caps\""},
		{"a stage that does not exist", "  pipeline: p@1.0.0\n  change: [{disable: markup/fee}]\n", `rule set markup@1.0.0 has no "fee"; it has fees`},
		{"a rule that does not exist", "  pipeline: p@1.0.0\n  change: [{disable: markup/fees/ad}]\n", `stage markup/fees has no rule "ad"; it has add, many`},
		{"too deep", "  pipeline: p@1.0.0\n  change: [{disable: ship/none/x}]\n", "is too deep"},
		{"a part that the same overlay disabled", "  pipeline: p@1.0.0\n  change: [{disable: markup/fees}, {disable: markup/fees/add}]\n", `"markup/fees" was disabled by RuleOverlay mine`},
		{"a param that does not exist", "  pipeline: p@1.0.0\n  change: [{params: {marku.fee: 1}}]\n", `o.yaml:7:22: RuleOverlay mine: pipeline p@1.0.0 has no parameter "marku.fee"; it has markup.fee, markup.limit, caps.limit`},
		{"a param of two sets", "  pipeline: p@1.0.0\n  change: [{params: {limit: 1}}]\n", `several rule sets have a parameter "limit"; write one of markup.limit, caps.limit`},
		{"a value that does not fit", "  pipeline: p@1.0.0\n  change: [{params: {markup.fee: much}}]\n", `o.yaml:7:34: RuleSet markup@1.0.0: param fee: "much" is not an amount`},
		{"a param of a rule set that the same overlay disables", "  pipeline: p@1.0.0\n  change: [{params: {markup.limit: 1}}, {disable: markup}]\n", "markup.limit is set, but what declares it has been removed"},
		{"a value below the bounds", "  pipeline: p@1.0.0\n  change: [{params: {markup.fee: -1}}]\n", "o.yaml:7:34: RuleSet markup@1.0.0: param fee: -1 is below the least allowed, 0"},
		{"a value above the bounds", "  pipeline: p@1.0.0\n  change: [{params: {markup.fee: 1001c}}]\n", "param fee: 1001c is above the most allowed, 1000"},
		{"an unknown rule set", "  pipeline: p@1.0.0\n  change: [{add: double}]\n", `no rule set "double"; write it as name@version`},
		{"a rule set of another point", "  pipeline: p@1.0.0\n  change: [{after: caps, ruleSet: ship@1.0.0}]\n", "rule set ship@1.0.0 plugs in at order.ship, not at order.adjust"},
		{"a rule set that runs there already", "  pipeline: p@1.0.0\n  change: [{add: caps@1.0.0}]\n", "rule set caps stands twice at order.adjust"},
		{"a decision into stages", "  pipeline: p@1.0.0\n  change: [{after: markup, decision: {name: d, do: Ship}}]\n", "markup holds stages; it has no place for a decision"},
		{"a rule set before a stage", "  pipeline: p@1.0.0\n  change: [{before: markup/fees, ruleSet: double@1.0.0}]\n", "markup/fees is a stage; a ruleSet has no place before it: write before: markup, or bring a stage instead"},
		{"a rule set after a rule", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, ruleSet: double@1.0.0}]\n", "no place after it: write after: markup, or bring a rule instead"},
		{"a stage before a rule", "  pipeline: p@1.0.0\n  change: [{before: markup/fees/add, stage: {name: s, rules: [{name: r, note: x}]}}]\n", "no place before it: write before: markup/fees, or bring a rule instead"},
		{"a rule beside a rule set", "  pipeline: p@1.0.0\n  change: [{after: markup, rule: {name: r, note: x}}]\n", "markup is a rule set; a rule goes after one of its stages or rules: markup/fees, …"},
		{"not an amount", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: \"now.price > cents('10x')\", note: x}}]\n", `o.yaml:7:78: RuleSet markup@1.0.0, stage fees, rule r, when: "10x" is not an amount`},
		{"an unclosed quote", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: \"item == 'x\", note: x}}]\n", "when: syntax error: a quote is not closed"},
		{"a single equals sign", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: \"item = 'x'\", note: x}}]\n", "when: syntax error: one = stands alone; compare with =="},
		{"not before a word", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: not true, note: x}}]\n", `when: syntax error: "not" is not an operator; write && for and, || for or, ! for not`},
		{"not between words", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: \"item not in ['x']\", note: x}}]\n", `when: syntax error: "not" is not an operator`},
		{"not as a function", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: not(true), note: x}}]\n", "undeclared reference to 'not': write ! for not"},
		{"a number with a unit", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: now.price > 10m, note: x}}]\n", `when: syntax error: "m" is not expected here; amounts are written as literals`},
		{"an unknown field", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: customer.discount.prize > 1, note: x}}]\n", "undefined field 'prize'; Line has price, before, weight"},
		{"an unknown fact", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: prize > 1, note: x}}]\n", "undeclared reference to 'prize'; known here: count, customer, gates, item, now, params, total"},
		{"the time of day", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: getHours(1) > 1, note: x}}]\n", "undeclared reference to 'getHours': the time is a fact of some points, which functions read; docs/points.md has both"},
		{"an item's fact without each", "  pipeline: p@1.0.0\n  change: [{after: markup, stage: {name: s, rules: [{name: r, when: now.price > 1, set: {now.price: '1'}}]}}]\n", `"now.price" belongs to the items of line; give the stage each: line`},
		{"a stage for a rule", "  pipeline: p@1.0.0\n  change: [{replace: markup/fees/add, stage: {rules: [{name: r, note: x}]}}]\n", "markup/fees/add is a rule; it cannot be replaced by a stage"},
		{"a name that is taken", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: many, note: x}}]\n", `RuleSet markup@1.0.0: there are two called "many", from RuleOverlay mine and from the rule set itself; give one another name`},
		{"a fault in the part", "  pipeline: p@1.0.0\n  change: [{after: markup/fees/add, rule: {name: r, when: nope, note: x}}]\n", "o.yaml:7:59: RuleSet markup@1.0.0, stage fees, rule r, when: undeclared reference to 'nope'"},
		{"a rule without effect", "  change: [{after: markup/fees/add, rule: {name: r}}]\n", "rule r does nothing"},
		{"a nameless rule", "  change: [{after: markup/fees/add, rule: {note: x}}]\n", "o.yaml:6:43: RuleOverlay mine: a rule has no name"},
		{"a bad operator", "  match: {orderSelector: {matchExpressions: [{key: a, operator: Near}]}}\n  change: [{disable: markup}]\n", `operator "Near" is not known; use In, NotIn, Exists, DoesNotExist`},
		{"unexpected values", "  match: {orderSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}\n  change: [{disable: markup}]\n", "operator Exists takes no values"},
		{"missing values", "  match: {orderSelector: {matchExpressions: [{key: a, operator: In}]}}\n  change: [{disable: markup}]\n", "operator In needs values"},
		{"a digest where nothing is replaced", "  change: [{add: double@1.0.0, digest: abc}]\n", "digest belongs to disable, replace, before and after"},
		{"an empty match", "  match: {}\n  change: [{disable: markup}]\n", "match is empty; give it namespaces, exceptNamespaces, namespaceSelector, kinds, workloadSelector or orderSelector, or leave it out to mean every object"},
		{"no namespaces", "  match: {namespaces: []}\n  change: [{disable: markup}]\n", "the list of namespaces is empty"},
		{"a pattern for namespaces", "  match: {namespaces: ['pay*']}\n  change: [{disable: markup}]\n", `"pay*" is not a name of a namespace; patterns are not supported`},
		{"a pattern for other namespaces", "  match: {exceptNamespaces: ['pay*']}\n  change: [{disable: markup}]\n", `"pay*" is not a name of a namespace; patterns are not supported`},
		{"no other namespaces", "  match: {exceptNamespaces: []}\n  change: [{disable: markup}]\n", "the list of namespaces is empty"},
		{"no kinds", "  match: {kinds: []}\n  change: [{disable: markup}]\n", "the list of kinds is empty"},
		{"a plural", "  match: {kinds: [daemonsets.apps]}\n  change: [{disable: markup}]\n", `"daemonsets.apps" is not a kind, such as Deployment or DaemonSet`},
		{"both kinds of namespaces", "  match: {namespaces: [a], exceptNamespaces: [b]}\n  change: [{disable: markup}]\n", "namespaces and exceptNamespaces exclude each other; namespaces leaves out all others"},
		{"an empty namespace selector", "  match: {namespaceSelector: {}}\n  change: [{disable: markup}]\n", ":6:30: RuleOverlay mine: the selector is empty"},
		{"an unknown operator for namespaces", "  match: {namespaceSelector: {matchExpressions: [{key: a, operator: Has}]}}\n  change: [{disable: markup}]\n", `operator "Has"`},
		{"an empty selector", "  match: {orderSelector: {}}\n  change: [{disable: markup}]\n", "the selector is empty"},
		{"an unknown key", "  matches: {}\n  change: [{disable: markup}]\n", `unknown key "matches"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rulebook(overlay("mine", tt.spec))
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestLaterLayerReplacesAnOverlayAndDuplicatesAreRefused(t *testing.T) {
	o := overlay("mine", "  change: [{params: {markup.fee: 0}}]\n")
	_, err := rulebook(o, o)
	require.ErrorContains(t, err, "o.yaml:10:18: RuleOverlay mine: defined already at o.yaml:4:18")

	changed := strings.ReplaceAll(shopRules, "default: 10,", "default: 11,")
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{"a.yaml": {Data: []byte(shopRules)}}}, document.Layer{FS: fstest.MapFS{"a.yaml": {Data: []byte(changed)}}})
	require.NoError(t, err)
	b, err := compile.NewRulebook(lib, shop(), compile.Options{Pipeline: "p@1.0.0"})
	require.NoError(t, err)
	require.Equal(t, int64(111), charge(t, b.Default()))
}
