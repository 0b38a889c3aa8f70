package schema

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// generator makes random conditions over the spec of a VPA, and random VPAs, many of which do not
// fit the schema.
type generator struct{ *rand.Rand }

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }

// placeholder stands for an expression: B a condition, C one on a policy p, S a text, I an integer, L
// the policies, O those of the object or the old object.
var placeholder = regexp.MustCompile(`<[BCSILO]>`)

func (g generator) form(kind byte, depth int) string {
	leaves := map[byte][]string{
		'B': {"true", "gates.Extra", "has(self.updatePolicy)", "has(self.updatePolicy.updateMode)", "(self.updatePolicy.minReplicas > 1)", "(params.most < 3)", "(n == 2)",
			"has(self.resourcePolicy.containerPolicies)", "oldObject.hasValue()", "('Recreate' == self.?updatePolicy.?updateMode.orValue(''))"},
		'C': {"has(p.containerName)", "has(p.minAllowed.cpu)", "(p.mode == 'Off')", "'cpu' in p.minAllowed", "p.?maxAllowed[?'memory'].hasValue()", "(size(p.minAllowed) == 1)"},
		'S': {"'cpu'", "'a'", "self.targetRef.name", "self.updatePolicy.updateMode", "'Recreate'", "''"},
		'I': {"0", "1", "2", "self.updatePolicy.minReplicas", "params.most", "n", "size(self.targetRef.name)"},
		'L': {"self.resourcePolicy.containerPolicies", "self.?resourcePolicy.?containerPolicies.orValue([])"},
		'O': {"object.spec.resourcePolicy.containerPolicies", "oldObject.?spec.?resourcePolicy.?containerPolicies.orValue([])", "oldObject.value().spec.resourcePolicy.containerPolicies"},
	}
	branches := map[byte][]string{
		'B': {"(<B> && <B>)", "(<B> || <B>)", "!(<B>)", "(<B> ? <B> : <B>)", "(<S> == <S>)", "(<S> != <S>)", "(<I> < <I>)", "(<I> >= <I>)", "<L>.exists(p, <C>)", "<L>.all(p, <C>)",
			"<L>.exists_one(p, <C>)", "<O>.exists(p, <C>)", "<O>.all(p, <C>)", "<L>.filter(p, <C>).exists(p, <C>)", "<L>.map(p, <C>).all(b, b)", "<O>.exists(q, <L>.exists(p, <C> && p.containerName == q.containerName))", "<L>.map(p, p.?containerName.orValue(<S>)).exists(s, s == <S>)",
			"<S>.startsWith(<S>)", "<S>.matches('^[a-c]')", "<S>.matches(<S>)", "<S> in ['cpu', <S>]", "[true, false].exists(b, b == <B>)", "isQuantity(<S>)",
			"(self.updatePolicy.?minReplicas.orValue(<I>) > <I>)", "(self.updatePolicy.minReplicas > 1.5)", "['b', 'a'].isSorted()", "(<L>[<I>].containerName == <S>)", "has(<L>[0].mode)",
			"<L>[?<I>].?containerName.hasValue()", "(<B> ? self.updatePolicy : self.?updatePolicy.orValue(self.updatePolicy)).minReplicas > <I>", "many.exists(m, m.?a.orValue(<I>) == 1)",
			"(self.startupBoost.cpu.factor >= 1)", "(duration(self.targetRef.name + 's') > duration('1s'))", "<L>.all(p, <L>.exists_one(q, q.containerName == p.containerName))"},
		'C': {"(<C> && <C>)", "(<C> || <C>)", "!(<C>)", "(p.containerName == <S>)", "<S> in p.controlledResources", "<S> in p.?controlledResources.orValue([])", "<S> in p.maxAllowed",
			"isQuantity(string(p.minAllowed[<S>]))", "quantity(string(p.?maxAllowed[?<S>].orValue('0'))).compareTo(quantity(string(p.minAllowed.cpu))) >= <I>", "(p.minAllowed[<S>] == '1')",
			"p.minAllowed.all(r, r in p.maxAllowed && string(p.minAllowed[r]).matches('^[0-9]+m?$'))", "p.maxAllowed.exists(r, quantity(string(p.maxAllowed[r])).isGreaterThan(quantity('100m')))",
			"(p.controlledResources == ['cpu'])", "p.controlledResources.all(r, r in ['cpu', 'memory'])", "(size(p.controlledResources) > <I>)", "p.?minAllowed.?cpu.hasValue()",
			"quantity(string(p.memoryPerCPU)).times(quantity('2')).isMultipleOf(quantity('1m'))", "[quantity(string(p.minAllowed.cpu))].total().isLessThan(quantity('1'))",
			"(p.controlledResources + ['x'] != ['x'])", "(p.minAllowed.cpu + p.minAllowed.cpu == '11')", "(string(p.oomBumpUpRatio) == <S>)"},
		'S': {"(<B> ? <S> : <S>)", "string(<I>)", "<L>[0].containerName", "(<S> + <S>)", "self.?targetRef.?name.orValue(<S>)", "<S>.lowerAscii()"},
		'I': {"(<I> + <I>)", "(<I> / <I>)", "size(<S>)", "size(<L>)", "(<B> ? <I> : <I>)", "quantity(<S>).asInteger()", "<L>.map(p, size(p.containerName)).sum()"},
		'L': {"(<B> ? <L> : <L>)", "<L>.filter(p, <C>)"},
		'O': {"(<B> ? <O> : <O>)", "<O>.filter(p, <C>)"},
	}
	list := leaves[kind]
	if depth > 0 && g.IntN(4) > 0 {
		list = branches[kind]
	}
	return placeholder.ReplaceAllStringFunc(g.one(list...), func(p string) string { return g.form(p[1], depth-1) })
}

func (g generator) vpa() map[string]any {
	out := map[string]any{"metadata": map[string]any{"name": "web"}}
	spec := map[string]any{}
	set := func(to map[string]any, name string, values ...any) {
		values = append(values, nil, 1.5, true, map[string]any{"odd": "x"}) // of the wrong type
		likely := len(values) - 4
		switch n := g.IntN(40); {
		case n == 0:
			to[name] = values[likely+g.IntN(4)]
		case n < 30:
			to[name] = values[g.IntN(likely)]
		}
	}
	quantities := func() any {
		out := map[string]any{}
		set(out, "cpu", "1", "100m", int64(2), "odd", "1e3")
		set(out, "memory", "1", "1Gi", int64(5))
		return out
	}
	policy := func() any {
		out := map[string]any{}
		set(out, "containerName", "a", "b", "*")
		set(out, "mode", "Off", "Auto")
		set(out, "controlledResources", []any{}, []any{"cpu"}, []any{"memory", "cpu"})
		set(out, "minAllowed", quantities())
		set(out, "maxAllowed", quantities())
		set(out, "memoryPerCPU", "4Gi", int64(3))
		set(out, "unknown", "x")
		return out
	}
	set(spec, "targetRef", map[string]any{"kind": "Deployment", "name": "cab"})
	update := map[string]any{}
	set(update, "updateMode", "Recreate", "Off", "")
	set(update, "minReplicas", int64(1), int64(3))
	set(spec, "updatePolicy", update)
	set(spec, "startupBoost", map[string]any{"cpu": map[string]any{"factor": g.IntN(3)}}, map[string]any{"cpu": map[string]any{"factor": 1.5}}, map[string]any{"cpu": map[string]any{"factor": int64(2)}})
	set(spec, "resourcePolicy", map[string]any{"containerPolicies": []any{}}, map[string]any{"containerPolicies": []any{policy()}}, map[string]any{"containerPolicies": []any{policy(), policy(), policy()}})
	set(out, "spec", spec, spec, spec)
	return out
}

// TestCompiledValidationsJudgeAsCEL compares code with CEL on random conditions and objects: the same
// violations, warnings and failures. It does not compare parts of objects with each other, which only
// CEL does: it finds the first difference of two maps in no order.
func TestCompiledValidationsJudgeAsCEL(t *testing.T) {
	point, reg := validatePoint(t)
	g := generator{rand.New(rand.NewPCG(1, 2))}
	const conditions, reviews = 300, 150
	rules := make([]string, conditions)
	for i := range rules {
		rules[i] = fmt.Sprintf("  - {name: r%d, at: spec, enforce: [Admission], when: %q, expression: %q, message: no}\n", i, g.form('B', 2), g.form('B', 5))
	}
	plan, err := compiledRules(reg, rules)
	if err != nil { // some cost too much
		for _, m := range regexp.MustCompile(`validation r(\d+), `).FindAllStringSubmatch(err.Error(), -1) {
			i, _ := strconv.Atoi(m[1])
			rules[i] = ""
		}
		plan, err = compiledRules(reg, rules)
	}
	require.NoError(t, err)

	require.Greater(t, withCode(plan), conditions/2)

	refused, failed := 0, 0
	judge := func(p *engine.Plan, j engine.Judged) []engine.Violation {
		out := p.Validate("vpa.validate", j, nil)
		for i := range out {
			if out[i].Failed {
				out[i].Message = "" // names any one of the entries of a map
			}
		}
		return out
	}
	for range reviews {
		j := engine.Judged{Object: g.vpa(), Facts: point.NewFacts()}
		if g.IntN(2) == 0 {
			j.Old = g.vpa()
		}
		if g.IntN(4) > 0 {
			j.Facts.Set("n", lang.Number(int64(g.IntN(3))))
		}
		if g.IntN(2) == 0 {
			j.Facts.Set("many", lang.Records([]*lang.Record{few.New(), few.New().SetInt("a", 1)}))
		}
		got := judge(plan, j)
		require.Equal(t, judge(plan.Interpreted(), j), got)
		for _, v := range got {
			if v.Failed {
				failed++
			} else {
				refused++
			}
		}
	}
	require.Greater(t, refused, reviews, "the objects fail some conditions")
	require.Greater(t, failed, reviews, "some conditions fail on some objects")
}

// TestAPIServersCompareAndJoinAsTheyDo: sets and maps of API servers have an equality and a sum of
// their own, so there is no code for them.
func TestAPIServersCompareAndJoinAsTheyDo(t *testing.T) {
	for condition, code := range map[string]int{
		"self.targetRef.name == 'a'":                                                              1,
		"'a' in self.updatePolicy.evictionRequirements[0].resources":                              1,
		"size(self.resourcePolicy.containerPolicies) > 1":                                         1,
		"self.updatePolicy == self.updatePolicy":                                                  0,
		"self.resourcePolicy.containerPolicies == []":                                             0,
		"self.resourcePolicy.containerPolicies[0] in self.resourcePolicy.containerPolicies":       0,
		"size(self.resourcePolicy.containerPolicies + self.resourcePolicy.containerPolicies) > 1": 0,
		"dyn(self.updatePolicy) == dyn(self.targetRef)":                                           0,
		"type(self.updatePolicy) == type(self.targetRef)":                                         0,
		"oldSelf.hasValue()": 0,
	} {
		_, reg := validatePoint(t)
		plan, err := compiledRules(reg, []string{fmt.Sprintf("  - {name: r, at: spec, enforce: [Admission], expression: %q, message: no}\n", condition)})
		require.NoError(t, err)
		require.Equal(t, code, withCode(plan), condition)
	}
}

// TestCostsAreLimitedAsInAPIServers: code gives up early, and CEL decides.
func TestCostsAreLimitedAsInAPIServers(t *testing.T) {
	point, reg := validatePoint(t)
	const names = "self.resourcePolicy.containerPolicies"
	plan, err := compiledRules(reg, []string{fmt.Sprintf("  - {name: r, at: spec, enforce: [Admission], expression: %q, message: no}\n", names+".all(p, "+names+".exists_one(q, q.containerName == p.containerName))")})
	require.NoError(t, err)
	judged := func(policies int) []engine.Violation {
		list := make([]any, policies)
		for i := range list {
			list[i] = map[string]any{"containerName": fmt.Sprint(i)}
		}
		object := map[string]any{"spec": map[string]any{"resourcePolicy": map[string]any{"containerPolicies": list}}}
		return plan.Validate(point.Name, engine.Judged{Object: object}, nil)
	}
	require.Empty(t, judged(100))
	failed := judged(3000)
	require.Len(t, failed, 1)
	require.Contains(t, failed[0].Message, "actual cost limit exceeded")
}

var few = lang.NewSchema("Few", lang.Field{Name: "a", Type: lang.Int})

func validatePoint(t *testing.T) (*registry.Point, *registry.Registry) {
	point := &registry.Point{Name: "vpa.validate", Kind: registry.ValidationPoint, Objects: vpaObjects(t),
		Vars: []registry.Var{{Name: "n", Type: lang.Int}, {Name: "many", Type: lang.ListOf(lang.RecordOf(few))}}}
	reg := registry.New()
	reg.AddGate("Extra", "more")
	reg.AddPoint(point)
	return point, reg
}

// withCode counts the expressions that have code.
func withCode(plan *engine.Plan) (n int) {
	for _, v := range plan.Parts().Points["vpa.validate"].Sets[0].Validations {
		if v.Places[0].Expression.Code != nil {
			n++
		}
	}
	return n
}

func compiledRules(reg *registry.Registry, validations []string) (*engine.Plan, error) {
	lib, err := document.Loader{}.Load(document.Layer{FS: fstest.MapFS{
		"s.yaml": {Data: []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: s}\nspec:\n  version: 1.0.0\n  point: vpa.validate\n" +
			"  params: [{name: most, type: int, default: \"2\"}]\n  validations:\n" + strings.Join(validations, ""))},
		"p.yaml": {Data: []byte("apiVersion: rules.celvpa.dev/v1alpha1\nkind: Pipeline\nmetadata: {name: p}\nspec: {version: 1.0.0, points: {vpa.validate: [s@1.0.0]}}\n")},
	}})
	if err != nil {
		return nil, err
	}
	return compile.Compile(lib, reg, compile.Options{Pipeline: "p"})
}
