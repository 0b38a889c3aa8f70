package engine_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// Facts of every type, so that generated expressions reach all code.
var (
	innerFields = []lang.Field{
		{Name: "i", Type: lang.Int}, {Name: "d", Type: lang.Double}, {Name: "b", Type: lang.Bool}, {Name: "s", Type: lang.String}, {Name: "l", Type: lang.ListOf(lang.String)},
	}
	innerSchema = lang.NewSchema("Inner", innerFields...)
	outerSchema = lang.NewSchema("Outer", append([]lang.Field{{Name: "n", Type: lang.RecordOf(innerSchema)}}, innerFields...)...)
	mixedPoint  = &registry.Point{
		Name: "mixed", Kind: registry.StagePoint,
		Vars: []registry.Var{
			{Name: "r", Type: lang.RecordOf(outerSchema)}, {Name: "x", Type: lang.Int}, {Name: "y", Type: lang.Double}, {Name: "gone", Type: lang.Int},
			{Name: "rs", Type: lang.ListOf(lang.RecordOf(outerSchema))}, {Name: "is", Type: lang.ListOf(lang.Int)}, {Name: "ds", Type: lang.ListOf(lang.Double)}, {Name: "bs", Type: lang.ListOf(lang.Bool)},
		},
		Scopes: []registry.Scope{{Name: "one", Kinds: []string{"a", "12"}, Vars: []registry.Var{
			{Name: "one", Type: lang.String}, {Name: "q", Type: lang.RecordOf(outerSchema)}, {Name: "t", Type: lang.String}, {Name: "now", Type: lang.RecordOf(outerSchema), Writable: true},
			{Name: "qs", Type: lang.ListOf(lang.RecordOf(outerSchema))},
		}}},
	}
)

// generator derives well-typed expressions and facts from bytes.
type generator struct {
	data []byte
	vars bool // the stage's variables are visible

	records, numbers, words int // enclosing comprehensions, with variables c, k and e
}

func (g *generator) next(n int) int {
	if len(g.data) == 0 {
		return 0
	}
	b := g.data[0]
	g.data = g.data[1:]
	return int(b) % n
}

// of expands one of the forms. I, D, B, S, L and R stand for expressions of those types, N and X
// for lists of integers and of records, M for lists of mixed types, O for optional integers, F and C for names that contain
// such letters. A record c is visible in «», an integer k in ‹›, a string e in {}. The first forms
// are leaves, used at depth 0.
func (g *generator) of(depth, leaves int, forms ...string) string {
	n := len(forms)
	if depth <= 0 {
		n = leaves
	}
	var out strings.Builder
	for _, c := range forms[g.next(n)] {
		switch c {
		case 'I':
			out.WriteString(g.int(depth - 1))
		case 'D':
			out.WriteString(g.double(depth - 1))
		case 'B':
			out.WriteString(g.bool(depth - 1))
		case 'S':
			out.WriteString(g.text(depth - 1))
		case 'L':
			out.WriteString(g.list(depth - 1))
		case 'R':
			out.WriteString(g.record(depth - 1))
		case 'N':
			out.WriteString(g.integers(depth - 1))
		case 'X':
			out.WriteString(g.table(depth - 1))
		case 'M':
			out.WriteString(g.mixed(depth - 1))
		case 'O':
			out.WriteString(g.optional(depth - 1))
		case '«':
			g.records++
		case '»':
			g.records--
		case '‹':
			g.numbers++
		case '›':
			g.numbers--
		case '{':
			g.words++
		case '}':
			g.words--
		case 'F':
			out.WriteString("mulDivFloor")
		case 'C':
			out.WriteString("mulDivCeil")
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

func (g *generator) int(depth int) string {
	leaf := g.variable("vi", "x")
	if g.numbers > 0 && g.next(3) == 0 {
		return "k"
	}
	if g.records > 0 && g.next(3) == 0 {
		return g.of(0, 2, "c.i", "c.n.i")
	}
	return g.of(depth, 16, "0", "1", "-1", "7", "1000", "9223372036854775807", "-9223372036854775808", "4294967296",
		"r.i", "q.i", "now.i", "r.n.i", "params.i", "params.missing", "gone", leaf,
		"(I + I)", "(I - I)", "(I * I)", "(I / I)", "(I % I)", "-(I)", "(B ? I : I)", "int(D + 0.0)", "int(S + \"\")", "size(S)", "size(L)", "R.i",
		"add(I, I)", "min(I, I)", "max(I, I)", "clamp(I, I, I)", "F(I, I, I)", "C(I, I, I)", "ceilTo(I, I)", "floorTo(I, I)",
		"sum([I, I])", "sum(L.map(e, size(e)))", "int(I)", "cents('12c')", "cents(S)",
		"sum(N)", "size(N)", "size(X)", "N[I]", "sum(X.filter(c, «B»).map(c, «I»))", "sum(X.map(c, «has(c.i) ? c.i : I»))", "sum(X.map(c, «B», «I»))", "sum(N.filter(k, ‹B›))",
		"size(X.filter(c, «B»).filter(c, «B»))",
		"O.orValue(I)", "O.orValue(I)", "O.value()", "O.or(O).orValue(I)", "(B ? O : O).orValue(I)", "vo.orValue(I)", "vo.value()", "r.?n.orValue(R.n).i", "R.?n.orValue(now.n).i",
		"r.?n.value().i", "[R.?n][I].i.orValue(I)", "[r.?n, q.?n][?I].orValue(r.?n).i.orValue(I)", "X.map(c, «c.?n»)[I].i.orValue(I)", "N[?I].orValue(I)", "X[?I].?i.orValue(I)", "sum(X.map(c, «c.?i.orValue(I)»))", "sum(X.map(c, «c.?n.i.orValue(I)»))")
}

func (g *generator) optional(depth int) string {
	return g.of(depth, 9, "r.?i", "q.?i", "now.?i", "now.?n.i", "r.n.?i", "r[?'i']", "params.?i", "params.?missing", "q.?n.?i",
		"R.?i", "R.?n.?i", "R.?n.i", "X[?I].?i", "X[?I].n.?i", "N[?I]", "(B ? O : O)", "O.or(O)", "r.?n.or(q.?n).i", "R.?n.or(vp).?i", "(B ? r.?n : R.?n).?i", "vo", "vp.i")
}

func (g *generator) double(depth int) string {
	leaf := g.variable("vd", "y")
	return g.of(depth, 12, "0.0", "1.5", "-2.5", "1e300", "9.3e18", "r.d", "q.d", "now.d", "r.n.d", "params.d", "y", leaf,
		"R.?d.orValue(D)", "R.?n.?d.or(r.?d).orValue(D)", "params.?d.orValue(D)", "ds[?I].orValue(D)", "now.?n.d.value()", "(D + D)", "(D - D)", "(D * D)", "(D / D)", "-(D)", "(B ? D : D)", "double(I)", "double(S + \"\")", "(B ? D : double(\"0x1\" + S))", "double(D)", "min(D, D)", "max(D, D)", "pow(D, D)", "R.d")
}

func (g *generator) bool(depth int) string {
	leaf := g.variable("vb", "gates.Vouchers")
	if g.records > 0 && g.next(3) == 0 {
		return g.of(0, 5, "c.b", "has(c.i)", "has(c.n)", "has(c.n.i)", "has(c.n.d)")
	}
	return g.of(depth, 13, "true", "false", "r.b", "q.b", "now.b", "r.n.b", "params.b", leaf, "has(r.i)", "has(q.n)", "has(r.n.d)", "has(params.missing)", "has(now.i)",
		"O.hasValue()", "O.or(O).hasValue()", "(O == O)", "r.?n.i.hasValue()", "R.?n.d.hasValue()", "R.?b.orValue(B)", "bs[?I].orValue(B)", "R.?n.hasValue()", "X[?I].hasValue()", "vo.hasValue()", "vp.hasValue()",
		"('i' in R)", "('n' in now)", "('s' in r.n)", "('missing' in params)", "('d' in X[I].n)", "(O in [O, O])", "[O, O].exists(o, o.hasValue())", "(R.?l.orValue(L) == L)",
		"(B && B)", "(B || B)", "(B && B && B)", "(B || B || B)", "!(B)", "(B ? B : B)", "(B && (B || B))",
		"(I < I)", "(I <= I)", "(I > I)", "(I >= I)", "(I == I)", "(I != I)",
		"(D < D)", "(D <= D)", "(D > D)", "(D >= D)", "(D == D)", "(D != D)",
		"(S < S)", "(S <= S)", "(S > S)", "(S >= S)", "(S == S)", "(S != S)", "(B == B)", "(B != B)", "(B < B)",
		"(S in L)", "(L == L)", "(R == R)", "(R != R)", "has(R.i)", "has(R.n.s)", "bool(S + \"\")", "bool(B)", "R.b", "L.exists(e, e == S)", "S.startsWith(S)",
		"X.exists(c, «B»)", "X.all(c, «B»)", "X.exists_one(c, «B»)", "X.filter(c, «B»).exists(c, «B»)", "X.filter(c, «B»).all(c, «B»)", "X.map(c, «B»).exists(b, b)",
		"N.exists(k, ‹B›)", "N.all(k, ‹B›)", "L.all(e, {B})", "L.filter(e, {B}).exists_one(e, {B})", "(I in N)", "(N == N)", "(X == X)", "(B in [B, B])", "(R in X)", "has(X[I].n.i)",
		"ds.exists(d, d < D)", "bs.all(b, b || B)",
		"(I in M)", "(D in M)", "(S in M)", "(B in M)", "(R in M)", "(M in [M, M])", "(M == M)", "M.exists(m, m == I)", "M.all(m, m != D)", "(I in [I, D])", "(D in [I, D])", "(I in [S, D])", "(dyn(I) == D)", "(dyn(S) == I)", "(dyn(I) in N)", "(dyn(I) in L)", "(dyn(D) in N)",
		"(M[I] == S)", "(B ? (B ? B : B) : B)", "((B && B) || (B && !(B)))", "((B ? dyn(I) : dyn(S)) == I)", "(I in (B ? M : M))", "M.filter(m, m in N).exists(m, m in M)")
}

func (g *generator) text(depth int) string {
	leaf := g.variable("vs", "t")
	if g.words > 0 && g.next(3) == 0 {
		return "e"
	}
	return g.of(depth, 13, `""`, `"a"`, `"12"`, `"1.5"`, `"true"`, `"ü"`, "r.s", "q.s", "now.s", "r.n.s", "params.s", "one", leaf,
		"R.?s.orValue(S)", "R.?n.s.orValue(S)", "L[?I].orValue(S)", "params.?s.value()", "(S + S)", "(B ? S : S)", "string(I)", "string(D)", "string(B)", "string(S)", "R.s")
}

func (g *generator) list(depth int) string {
	return g.of(depth, 4, "r.l", "r.n.l", `["a", "12"]`, `[]`, `[S, "b"]`, "(B ? L : L)", "R.l", "L.filter(e, e != S)",
		"R.?l.orValue(L)", "R.?n.?l.orValue([])", "[?r.?s, ?R.?s, S]", "L.filter(e, {B})", "L.map(e, {S})", "X.map(c, «S»)", "L.map(e, {B}, {S})")
}

func (g *generator) integers(depth int) string {
	return g.of(depth, 4, "is", "[1, 2, 3]", "[]", "is", "[I, I]", "(B ? N : N)", "N.filter(k, ‹B›)", "N.map(k, ‹I›)", "N.map(k, ‹B›, ‹I›)", "X.map(c, «I»)",
		"[?O, I, ?O]", "X.map(c, «O»).filter(o, o.hasValue()).map(o, o.value())", "X.map(c, «B», «I»)", "X.filter(c, «B»).map(c, «I»)", "N.filter(k, ‹B›).filter(k, ‹B›)", "N.filter(k, ‹B›).map(k, ‹I›).filter(k, ‹B›)", "L.map(e, {I})", "ds.map(d, d > D, I)")
}

// mixed returns lists whose elements are of several types.
func (g *generator) mixed(depth int) string {
	return g.of(depth, 7, "[1, 1.0]", "[2, 1.0]", "[1.0, 'a']", "['12', 12, true]", "[0.5, 9223372036854775807, 9.223372036854775807e18]", "[dyn(1)]", "[[1], 1.0]",
		"[I, D]", "[D, I]", "[S, I, B]", "[R, I]", "[dyn(I), D]", "(B ? M : M)", "[N, I]", "(M + M)", "[B ? dyn(I) : dyn(D)]", "M.filter(m, m != S)", "N.map(k, ‹dyn(D)›)")
}

func (g *generator) table(depth int) string {
	return g.of(depth, 3, "rs", "qs", g.variable("vt", "rs"), "[R, R]", "[R]", "(B ? X : X)", "X.filter(c, «B»)", "X.filter(c, «B»).filter(c, «B»)", "X.map(c, «R»)")
}

func (g *generator) record(depth int) string {
	leaf := g.variable("vr", "r")
	if g.records > 0 && g.next(3) == 0 {
		return "c"
	}
	return g.of(depth, 4, "r", "q", "now", leaf, "(B ? R : R)", "X[I]", "X[0]", "X[?I].orValue(R)", "X[?0].value()")
}

func (g *generator) variable(name, otherwise string) string {
	if g.vars {
		return name
	}
	return otherwise
}

// ruleSet generates a stage with a variable of each type and rules that read and write.
func (g *generator) ruleSet() string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	var out strings.Builder
	fmt.Fprintf(&out, `
  params: [{name: i, type: int, default: "41"}, {name: d, type: double, default: "0.25"}, {name: b, type: bool, default: "true"}, {name: s, type: string, default: "a"}, {name: missing, type: int}]
  stages:
  - name: st
    each: one
    variables: {vo: %s, vp: %s, vi: %s, vd: %s, vb: %s, vs: %s, vr: %s, vt: %s}
`, quote([]string{"r.?i", "now.?n.i", "q.?i.or(r.?i)", "qs[?1].?i", "(x > 0 ? r.?i : now.?i)", "params.?missing"}[g.next(6)]), quote([]string{"now.?n", "r.?n.or(q.?n)", "qs[?0].?n"}[g.next(3)]), quote(g.int(2)), quote(g.double(2)), quote(g.bool(2)), quote(g.text(2)), quote(g.record(2)), quote(g.table(2)))
	g.vars = true
	if g.next(4) == 0 {
		fmt.Fprintf(&out, "    when: %s\n", quote(g.bool(2)))
	}
	fmt.Fprintf(&out, "    rules:\n")
	for k := range 3 {
		fmt.Fprintf(&out, "    - {name: a%d, when: %s, set: {now.i: %s, now.d: %s}}\n", k, quote(g.bool(4)), quote(g.int(4)), quote(g.double(4)))
		fmt.Fprintf(&out, "    - {name: b%d, set: {now.b: %s, now.s: %s}}\n", k, quote(g.bool(4)), quote(g.text(4)))
		fmt.Fprintf(&out, "    - {name: c%d, when: %s, unset: [now.i], set: {now.n.i: %s}, note: n}\n", k, quote(g.bool(3)), quote(g.int(3)))
	}
	return out.String()
}

var (
	edgeInts  = []int64{0, 1, -1, 2, 3, 1000, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, 1 << 53, -7}
	edgeTexts = []string{"", "a", "12", "b", "1e3", "false", "\xff"}
)

// evaluation formats everything that a run outputs.
func evaluation(t *testing.T, plan *engine.Plan, f *registry.Facts) string {
	t.Helper()
	var out strings.Builder
	trace := &engine.Trace{}
	for _, e := range plan.RunStages("mixed", f, trace) {
		fmt.Fprintf(&out, "%s\n", e)
	}
	for _, item := range f.ByScope()[0] {
		now := item.Record("now")
		fmt.Fprintf(&out, "%s %v %s\n", item.Label, item.Notes, show(now))
	}
	steps, err := json.Marshal(trace)
	require.NoError(t, err)
	out.Write(steps)
	return out.String()
}

func compileMixed(body string) (*engine.Plan, error) {
	return compileAt(func() *registry.Registry {
		r := shop()
		r.AddPoint(mixedPoint)
		return r
	}(), "mixed", body, compile.Options{})
}

// FuzzClosuresEqualCEL checks closures, with and without constant folding, against CEL's evaluator.
func FuzzClosuresEqualCEL(f *testing.F) {
	f.Add([]byte("rules"), []byte("facts"))
	for i := range 128 {
		rules, facts := make([]byte, 400), make([]byte, 150)
		for j := range rules {
			rules[j] = byte(i*31 + j*j*7 + j*i*13)
		}
		for j := range facts {
			facts[j] = byte(i*17 + j*j*5 + j)
		}
		f.Add(rules, facts)
	}
	if os.Getenv("LONG") != "" {
		seed := uint64(time.Now().UnixNano())
		f.Logf("500 more, from seed %d", seed)
		fresh := rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), seed)))
		for range 500 {
			rules, facts := make([]byte, 400), make([]byte, 150)
			fresh.Read(rules)
			fresh.Read(facts)
			f.Add(rules, facts)
		}
	}
	f.Fuzz(func(t *testing.T, rules, data []byte) {
		body := (&generator{data: rules}).ruleSet()
		plan, err := compileMixed(body)
		if err != nil {
			t.Skip(err) // e.g. a literal that cannot be converted
		}
		facts := func() *registry.Facts { return (&generator{data: data}).facts() }
		want := evaluation(t, plan.Interpreted(), facts())
		if got := evaluation(t, plan, facts()); got != want {
			t.Fatalf("%s\n--- CEL\n%s\n--- code\n%s", body, want, got)
		}
	})
}
