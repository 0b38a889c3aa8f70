package inline

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	celast "github.com/google/cel-go/common/ast"
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
	for _, one := range list {
		signature, expression, _ := strings.Cut(one, ": ")
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

func TestCallsAreSpeltOut(t *testing.T) {
	d := shopkeeper(t)
	for expression, want := range map[string]string{
		"isOff(policy)":                         "policy.?mode.orValue('') == 'Off'",
		"!isOff(c.policy) && x":                 "!(c.policy.?mode.orValue('') == 'Off') && x",
		"x || isOff( p )||y":                    "x || p.?mode.orValue('') == 'Off'||y",
		"list.all(p, isOff(p))":                 "list.all(p, p.?mode.orValue('') == 'Off')",
		"list.map(p, !has(p.x), half(p.x + 1))": "list.map(p, !has(p.x), (p.x + 1) / 2)",
		"half(half(8))":                         "8 / 2 / 2",
		"8 / half(2)":                           "8 / (2 / 2)",
		"half(-1)":                              "-1 / 2",
		"-half(4)":                              "-(4 / 2)",
		"half((1 + 3))":                         "(1 + 3) / 2",
		"half((1) + (3))":                       "((1) + (3)) / 2",
		"a - sum(b, c) - d":                     "a - (b + c) - d",
		"sum(a, b) - sum(c, d)":                 "a + b - (c + d)",
		"sum(a, b).x":                           "(a + b).x",
		"x[sum(1, 2)][?half(i)]":                "x[1 + 2][?i / 2]",
		"half(n) in [half(1), 2]":               "n / 2 in [1 / 2, 2]",
		"{half(2): isOff(p) ? 1 : half(4)}":     "{2 / 2: p.?mode.orValue('') == 'Off' ? 1 : 4 / 2}",
		"same(a ? b : c)":                       "a ? b : c",
		"!same(a && b)":                         "!(a && b)",
		"same(same(a + b)) * 2":                 "(a + b) * 2",
		"both(a && b, c || d) && e":             "a && b && !(c || d) && e",
		"!both(a, both(b, c))":                  "!(a && !(b && !c))",
		"capped(now, ports)":                    "min(now, now / 2 + ports.size())",
		"any(ports, p)":                         "ports.exists(r, r == p)",
		"any(ports.filter(r, r > 1), p)":        "ports.filter(r, r > 1).exists(r, r == p)",
		"allOff(list)":                          "list.all(p, p.?mode.orValue('') == 'Off')",
		"text(f('isOff(x)', \"half(\"))":        `'a, ) (' + string(f('isOff(x)', "half(")) + r'\'`,
		"given(now[resource])":                  "has(now[resource].limit) && 'x' != now[resource].limit",
		"lines(c, d) * e":                       "((c) // both, (\n + (d)\n) * e",
		"f(half(a), 1, '''it's, )''')":          "f(a / 2, 1, '''it's, )''')",
		"x.half(1)":                             "x.half(1)",
		"'isOff(x)' == y":                       "'isOff(x)' == y",
		"half":                                  "half",
		"half(":                                 "half(",
		"half (\n 7 )":                          "7 / 2",
	} {
		ps := &source.Collector{}
		got := d.Spell(scalar(expression), "", ps)
		require.NoError(t, ps.Err(), expression)
		require.Equal(t, want, got.Value, expression)
	}
}

// FuzzTextMeansWhatTheCallMeans compares with replacing nodes of the syntax tree.
func FuzzTextMeansWhatTheCallMeans(f *testing.F) {
	for _, seed := range []string{"both(a || b, -c) || half(d ? e : f) in g", "-sum(a, b) * half(c)[0]", "both(a, b) ? same(c) : d", "a - sum(b, half(c)) - d", "x.y(sum(a, b)).z", "any(a, b) && allOff(c)", "-allOff(0)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		d, ps := shopkeeper(t), &source.Collector{}
		written, issues := parse(expression)
		if issues.Err() != nil {
			return
		}
		spelt := d.Spell(scalar(expression), "", ps)
		if len(ps.List) > 0 || len(spelt.Value) > 10000 {
			return
		}
		got, issues := parse(spelt.Value)
		require.NoError(t, issues.Err(), spelt.Value)
		require.Equal(t, shape(replaced(t, d, written.Expr())), shape(got.Expr()), spelt.Value)
	})
}

// replaced spells calls out in the tree.
func replaced(t *testing.T, d *Definitions, root celast.Expr) celast.Expr {
	make := celast.NewExprFactory()
	celast.PostOrderVisit(root, celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.CallKind || e.AsCall().IsMemberFunction() || d.byName[e.AsCall().FunctionName()] == nil {
			return
		}
		f, args := d.byName[e.AsCall().FunctionName()], e.AsCall().Args()
		ast, issues := parse(string(f.body.runes))
		require.NoError(t, issues.Err())
		body := ast.Expr()
		celast.PostOrderVisit(body, celast.NewExprVisitor(func(in celast.Expr) {
			for i, arg := range f.Args {
				if in.Kind() == celast.IdentKind && in.AsIdent() == arg.Value {
					in.SetKindCase(make.CopyExpr(args[i]))
					return
				}
			}
		}))
		e.SetKindCase(body)
	}))
	return root
}

// shape writes a tree without positions, and chains of && and || as lists.
func shape(e celast.Expr) string {
	var parts []string
	var chain func(e celast.Expr, of string)
	chain = func(e celast.Expr, of string) {
		if e.Kind() == celast.CallKind && e.AsCall().FunctionName() == of {
			for _, arg := range e.AsCall().Args() {
				chain(arg, of)
			}
			return
		}
		parts = append(parts, shape(e))
	}
	switch e.Kind() {
	case celast.IdentKind:
		return e.AsIdent()
	case celast.LiteralKind:
		return fmt.Sprintf("%T:%v", e.AsLiteral(), e.AsLiteral().Value())
	case celast.SelectKind:
		s := e.AsSelect()
		return shape(s.Operand()) + "." + s.FieldName() + map[bool]string{true: "?"}[s.IsTestOnly()]
	case celast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			parts = append(parts, shape(call.Target()))
		}
		for _, arg := range call.Args() {
			if name := call.FunctionName(); name == "_&&_" || name == "_||_" {
				chain(arg, name)
				continue
			}
			parts = append(parts, shape(arg))
		}
		return call.FunctionName() + "(" + strings.Join(parts, ", ") + ")"
	case celast.ListKind:
		for _, one := range e.AsList().Elements() {
			parts = append(parts, shape(one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case celast.MapKind:
		for _, one := range e.AsMap().Entries() {
			parts = append(parts, shape(one.AsMapEntry().Key())+": "+shape(one.AsMapEntry().Value()))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case celast.ComprehensionKind:
		c := e.AsComprehension()
		for _, one := range []celast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			parts = append(parts, shape(one))
		}
		return c.IterVar() + "/" + c.AccuVar() + "{" + strings.Join(parts, "; ") + "}"
	case celast.StructKind:
		for _, one := range e.AsStruct().Fields() {
			parts = append(parts, one.AsStructField().Name()+": "+shape(one.AsStructField().Value()))
		}
		return e.AsStruct().TypeName() + "{" + strings.Join(parts, ", ") + "}"
	}
	return "?"
}

func TestFaultsOfDefinitionsAreReportedInPlace(t *testing.T) {
	for want, list := range map[string][]string{
		`f.yaml:1:1: Pipeline p@1.0.0, definition min: the name "min" of the definition is taken by a function; choose another`:                                        {"min(a): a + 1"},
		`f.yaml:1:1: Pipeline p@1.0.0, definition now: the name "now" of the definition is taken by a fact of p; choose another`:                                       {"now(a): a + 1"},
		`f.yaml:1:1: Pipeline p@1.0.0, definition resource: the name "resource" of the definition is taken by an axis; choose another`:                                 {"resource(a): a + 1"},
		`f.yaml:1:1: Pipeline p@1.0.0, definition f: the name "resources" of an argument is taken by an axis; choose another`:                                          {"f(resources): resources + 1"},
		"f.yaml:1:5: Pipeline p@1.0.0, definition f: f(a) reads only its arguments, params and gates, so not now; add an argument for it":                              {"f(a): a + now.cpu"},
		"f.yaml:1:2: Pipeline p@1.0.0, definition f: f calls itself; a definition is spelt out, so it cannot":                                                          {"f(a): f(a)"},
		"f.yaml:1:2: Pipeline p@1.0.0, definition f: g is declared below; put it above f":                                                                              {"f(a): g(a)", "g(a): a + 1"},
		"f.yaml:1:6: Pipeline p@1.0.0, definition f: no function or definition strng; did you mean string?":                                                            {"f(a): strng(a)"},
		"f.yaml:1:1: Pipeline p@1.0.0, definition f: argument b is never read; take it out":                                                                            {"f(a, b): a + 1"},
		"f.yaml:1:8: Pipeline p@1.0.0, definition f: a is an argument of f(a); call the variable something else":                                                       {"f(a): [1].all(a, a > 0)"},
		"f.yaml:1:5: Pipeline p@1.0.0, definition f: syntax error: mismatched input":                                                                                   {"f(a): a + )"},
		"f.yaml:1:2: Pipeline p@1.0.0, definition f: definition g(a, b) takes 2 arguments, not 1":                                                                      {"g(a, b): a + b", "f(a): g(a)"},
		"f.yaml:1:13: Pipeline p@1.0.0, definition f: definition any(list, x) has a variable r of its own, and an argument reads another one; give yours another name": {"any(list, x): list.exists(r, r == x)", "f(a): a.map(r, any(a, r))"},
		"f.yaml:1:1: Pipeline p@1.0.0, definition d11: the expression has more than 16384 bytes with its definitions spelt out: split it with variables":               doubling(20),
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
		require.Equal(t, expression, d.Spell(scalar(expression), "", ps).Value)
		require.ErrorContains(t, ps.Err(), want)
	}
}

func TestPositionsAreThoseOfTheRule(t *testing.T) {
	d, ps := shopkeeper(t), &source.Collector{}
	s := d.Spell(scalar("1 + half(capped(x, y)) + z"), "", ps)
	require.Equal(t, "1 + min(x, x / 2 + y.size()) / 2 + z", s.Value)
	for part, want := range map[string]string{
		"1 +":      "f.yaml:1:1: here",
		"min":      "f.yaml:1:10: here (in definition capped at f.yaml:1:1)",
		"x,":       "f.yaml:1:17: here",
		"x / 2":    "f.yaml:1:17: here",
		" / 2 + y": "f.yaml:1:10: here (in definition half at f.yaml:1:3)",
		"y.":       "f.yaml:1:20: here",
		".size":    "f.yaml:1:10: here (in definition capped at f.yaml:1:25)",
		" / 2 + z": "f.yaml:1:5: here (in definition half at f.yaml:1:3)",
		"z":        "f.yaml:1:26: here",
	} {
		ps := &source.Collector{}
		ps.Inside(s, 1, strings.LastIndex(s.Value, part), "", "here")
		require.Equal(t, want, strings.SplitN(ps.List[0].Error(), "\n", 2)[0], part)
	}
}
