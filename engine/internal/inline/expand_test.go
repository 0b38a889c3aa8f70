package inline

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/debug"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/source"
)

// scalar is an expression that is written on one line of a file.
func scalar(text string) source.Scalar {
	return source.NewScalar(text, source.Position{File: "f.yaml", Line: 1, Col: 1}, 0, strings.Split(text, "\n"))
}

// define declares definitions in the form "name(a, b): expression".
func define(list ...string) *document.Pipeline {
	p := &document.Pipeline{Name: scalar("p"), Version: scalar("1.0.0")}
	for _, definition := range list {
		signature, expression, _ := strings.Cut(definition, ": ")
		name, args, _ := strings.Cut(strings.TrimSuffix(signature, ")"), "(")
		f := document.Definition{Name: scalar(name), Expression: scalar(expression)}
		for arg := range strings.SplitSeq(args, ", ") {
			f.Args = append(f.Args, scalar(arg))
		}
		p.Definitions = append(p.Definitions, f)
	}
	return p
}

var names = Names{
	Functions: map[string]bool{"min": true, "string": true, "orValue": true, "matches": true, "size": true, "sets.contains": true, "contains": true, "isMultipleOf": true},
	Constants: map[string]bool{"resources": true},
	Axes:      map[string]bool{"resource": true, "resources": true},
	Taken:     map[string]string{"now": "a fact of p"},
}

func shopkeeper(t *testing.T) *Definitions {
	t.Helper()
	ps := &source.Collector{}
	d := New(define(
		"isOff(policy): policy.?mode.orValue('') == 'Off'",
		"half(n): n / 2",
		"sum(a, b): a + b",
		"same(x): x",
		"both(a, b): a && !b",
		"capped(n, list): min(n, sum(half(n), list.size()))",
		"any(list, x): list.exists(r, r == x)",
		"allOff(list): list.all(p, isOff(p))",
		"text(x): 'a, ) (' + string(x) + r'\\'",
		"given(x): has(x.limit) && 'x' != x.limit",
		"lines(a, b): a // both, (\n + b",
	), names, ps)
	require.NoError(t, ps.Err())
	return d
}

// expand returns an expression without calls of definitions, and its text.
func expand(t *testing.T, d *Definitions, expression string, ps *source.Collector) (source.Scalar, string) {
	t.Helper()
	ast, issues := macros().Parse(expression)
	require.NoError(t, issues.Err())
	tree := NewTree(ast.NativeRep())
	s := d.Expand(scalar(expression), tree, macros().Parse, "", ps)
	text, err := tree.Text()
	require.NoError(t, err)
	return s, text
}

func TestCallsAreReplaced(t *testing.T) {
	d := shopkeeper(t)
	for expression, want := range map[string]string{
		"isOff(policy)":                         `policy.?mode.orValue("") == "Off"`,
		"!isOff(c.policy) && x":                 `!(c.policy.?mode.orValue("") == "Off") && x`,
		"list.all(p, isOff(p))":                 `list.all(p, p.?mode.orValue("") == "Off")`,
		"list.map(p, !has(p.x), half(p.x + 1))": "list.map(p, !has(p.x), (p.x + 1) / 2)",
		"list.exists_one(p, half(p) == 1)":      "list.exists_one(p, p / 2 == 1)",
		"8 / half(2)":                           "8 / (2 / 2)",
		"a - sum(b, c) - d":                     "a - (b + c) - d",
		"sum(a, b).x":                           "(a + b).x",
		"x[sum(1, 2)][?half(i)]":                "x[1 + 2][?i / 2]",
		"{half(2): isOff(p) ? 1 : half(4)}":     `{2 / 2: (p.?mode.orValue("") == "Off") ? 1 : (4 / 2)}`,
		"same(same(a + b)) * 2":                 "(a + b) * 2",
		"!both(a, both(b, c))":                  "!(a && !(b && !c))",
		"capped(now, ports)":                    "min(now, now / 2 + ports.size())",
		"any(ports, p)":                         "ports.exists(r, r == p)",
		"any(ports.filter(r, r > 1), p)":        "ports.filter(r, r > 1).exists(r, r == p)",
		"allOff(list)":                          `list.all(p, p.?mode.orValue("") == "Off")`,
		"any(a, 1) && any(b, 1)":                "a.exists(r, r == 1) && b.exists(r, r == 1)",
		"text(f('isOff(x)', \"half(\"))":        `"a, ) (" + string(f("isOff(x)", "half(")) + "\\"`,
		"given(now[resource])":                  `has(now[resource].limit) && "x" != now[resource].limit`,
		"lines(c, d) * e":                       "(c + d) * e",
		"x.half(1)":                             "x.half(1)",
		"half":                                  "half",
	} {
		ps := &source.Collector{}
		_, text := expand(t, d, expression, ps)
		require.NoError(t, ps.Err(), expression)
		require.Equal(t, want, text, expression)
	}
}

// FuzzTextMeansWhatTheTreeMeans parses the text of an expression without calls.
func FuzzTextMeansWhatTheTreeMeans(f *testing.F) {
	for _, seed := range []string{"both(a || b, c) || half(d ? e : f) in g", "-sum(a, b) * half(c)[0]", "both(a, b) ? same(c) : d", "a - sum(b, half(c)) - d", "x.y(sum(a, b)).z", "any(a, b) && allOff(c)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		written, issues := macros().Parse(expression)
		if issues.Err() != nil {
			return
		}
		ps := &source.Collector{}
		tree := NewTree(written.NativeRep())
		shopkeeper(t).Expand(scalar(expression), tree, macros().Parse, "", ps)
		text, err := tree.Text()
		if len(ps.List) > 0 || err != nil || len(text) > 10000 || strings.Contains(text, "-") {
			return // CEL's writer and parser disagree on signs
		}
		got, issues := macros().Parse(text)
		require.NoError(t, issues.Err(), text)
		require.Equal(t, debug.ToDebugString(tree.Expr()), debug.ToDebugString(got.NativeRep().Expr()), text)
	})
}

func TestFaultsOfDefinitionsAreReportedInPlace(t *testing.T) {
	for want, list := range map[string][]string{
		`f.yaml:1:1: Pipeline p@1.0.0, definition min: the name "min" of the definition is taken by a function; choose another`:                                        {"min(a): a + 1"},
		`f.yaml:1:1: Pipeline p@1.0.0, definition now: the name "now" of the definition is taken by a fact of p; choose another`:                                       {"now(a): a + 1"},
		`f.yaml:1:1: Pipeline p@1.0.0, definition resource: the name "resource" of the definition is taken by an axis; choose another`:                                 {"resource(a): a + 1"},
		`f.yaml:1:1: Pipeline p@1.0.0, definition f: the name "resources" of an argument is taken by an axis; choose another`:                                          {"f(resources): resources + 1"},
		"f.yaml:1:5: Pipeline p@1.0.0, definition f: f(a) reads only its arguments, params and gates, so not now; add an argument for it":                              {"f(a): a + now.cpu"},
		"f.yaml:1:2: Pipeline p@1.0.0, definition f: f calls itself; its expression stands in place of each call, so it cannot":                                        {"f(a): f(a)"},
		"f.yaml:1:2: Pipeline p@1.0.0, definition f: g is declared below; put it above f":                                                                              {"f(a): g(a)", "g(a): a + 1"},
		"f.yaml:1:6: Pipeline p@1.0.0, definition f: no function or definition strng; did you mean string?":                                                            {"f(a): strng(a)"},
		"f.yaml:1:1: Pipeline p@1.0.0, definition f: argument b is never used; remove it":                                                                              {"f(a, b): a + 1"},
		"f.yaml:1:8: Pipeline p@1.0.0, definition f: a is an argument of f(a); call the variable something else":                                                       {"f(a): [1].all(a, a > 0)"},
		"f.yaml:1:5: Pipeline p@1.0.0, definition f: syntax error: mismatched input":                                                                                   {"f(a): a + )"},
		"f.yaml:1:2: Pipeline p@1.0.0, definition f: definition g(a, b) takes 2 arguments, not 1":                                                                      {"g(a, b): a + b", "f(a): g(a)"},
		"f.yaml:1:13: Pipeline p@1.0.0, definition f: definition any(list, x) has a variable r of its own, and an argument reads another one; give yours another name": {"any(list, x): list.exists(r, r == x)", "f(a): a.map(r, any(a, r))"},
		"f.yaml:1:1: Pipeline p@1.0.0, definition d12: the expression has more than 16384 parts with its definitions: split it with variables":                         doubling(20),
	} {
		ps := &source.Collector{}
		New(define(list...), names, ps)
		require.ErrorContains(t, ps.Err(), want)
		require.Len(t, ps.List, 1, "%v", ps.Err())
	}
}

// doubling are definitions of which each calls the one before twice.
func doubling(n int) []string {
	list := []string{"d0(a): a + 1"}
	for i := range n {
		list = append(list, strings.NewReplacer("N", strconv.Itoa(i+1), "M", strconv.Itoa(i)).Replace("dN(a): dM(a) + dM(a)"))
	}
	return list
}

func TestFaultsOfCallsAreReportedInPlace(t *testing.T) {
	d := shopkeeper(t)
	for expression, want := range map[string]string{
		"true && isOff(p, q)":            "f.yaml:1:14: definition isOff(policy) takes 1 argument, not 2",
		"list.all(r, any(ports, r + 1))": "f.yaml:1:16: definition any(list, x) has a variable r of its own, and an argument reads another one; give yours another name",
	} {
		ps := &source.Collector{}
		_, text := expand(t, d, expression, ps)
		require.Equal(t, expression, text)
		require.ErrorContains(t, ps.Err(), want)
	}
}

func TestPositionsAreThoseOfTheRule(t *testing.T) {
	tree, s := func(d *Definitions, expression string) (*Tree, source.Scalar) {
		ast, issues := macros().Parse(expression)
		require.NoError(t, issues.Err())
		tree := NewTree(ast.NativeRep())
		return tree, d.Expand(scalar(expression), tree, macros().Parse, "", &source.Collector{})
	}(shopkeeper(t), "1 + half(capped(x, y)) + z")
	want := map[string]string{
		"1":        "f.yaml:1:1: here",
		"min":      "f.yaml:1:10: here (in definition capped at f.yaml:1:4)",
		"x":        "f.yaml:1:17: here",
		"y":        "f.yaml:1:20: here",
		"y.size()": "f.yaml:1:10: here (in definition capped at f.yaml:1:30)",
		"x / 2":    "f.yaml:1:10: here (in definition half at f.yaml:1:3)",
		"z":        "f.yaml:1:26: here",
	}
	celast.PreOrderVisit(tree.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		text, err := cel.ExprToString(e, tree.SourceInfo())
		require.NoError(t, err)
		if text = strings.TrimSuffix(text, "(x, x / 2 + y.size())"); want[text] == "" {
			return
		}
		at, problems := tree.SourceInfo().GetStartLocation(e.ID()), &source.Collector{}
		problems.Inside(s, at.Line(), at.Column(), "", "here")
		require.Equal(t, want[text], strings.SplitN(problems.List[0].Error(), "\n", 2)[0], text)
		delete(want, text)
	}))
	require.Empty(t, want)
}
