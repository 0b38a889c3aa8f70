package engine_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// overLists are expressions that must have code, checked against CEL.
var overLists = []string{
	// Every macro, over every element type.
	"rs.exists(c, c.b)", "rs.all(c, c.b)", "rs.exists_one(c, c.b)", "rs.filter(c, c.b)", "rs.map(c, c.i)", "rs.map(c, c.b, c.i)",
	"is.exists(k, k > 1)", "is.all(k, k > 1)", "is.exists_one(k, k == 1)", "is.filter(k, k > 1)", "is.map(k, k + 1)", "is.map(k, k > 0, k * k)",
	"ds.exists(d, d > 0.5)", "ds.all(d, d > 0.5)", "ds.exists_one(d, d == 1.0)", "ds.filter(d, d < 1.0)", "ds.map(d, d / 2.0)", "ds.map(d, d < 1.0, int(d))",
	"bs.exists(b, b)", "bs.all(b, b)", "bs.exists_one(b, b)", "bs.filter(b, !b)", "bs.map(b, b ? 1 : 0)", "bs.map(b, b, !b)",
	"r.l.exists(e, e == 'a')", "r.l.all(e, size(e) > 0)", "r.l.exists_one(e, e == t)", "r.l.filter(e, e != 'a')", "r.l.map(e, e + t)", "r.l.map(e, e != '', int(e))",
	"rs.map(c, c.l).exists(l, 'a' in l)", "rs.map(c, c.l).filter(l, size(l) > 0)",

	// Unset fields, also of unset records.
	"rs.exists(c, has(c.i))", "rs.exists(c, has(c.n.i))", "rs.all(c, has(c.n))", "rs.filter(c, has(c.i)).map(c, c.i)", "rs.map(c, has(c.i) ? c.i : 0)",
	"rs.map(c, has(c.n.i) ? c.n.i : params.i)", "rs.map(c, c.n.s)", "rs.map(c, c.d)", "rs.map(c, c)", "rs.map(c, c.n)", "rs.map(c, c.l)", "rs.map(c, has(c.n.d), c.n.d)",

	// A deciding element absorbs failures before and after it; otherwise the first failure wins.
	"rs.exists(c, c.i > 0)", "rs.all(c, c.i > 0)", "rs.exists(c, c.i / c.n.i > 0)", "rs.all(c, c.i + c.n.i > 0)", "is.exists(k, 10 / k > 3)", "is.all(k, k % k == 0)",
	"rs.exists(c, c.b || c.n.b)", "rs.all(c, c.b && c.n.b)", "is.exists(k, k + 9223372036854775807 > 0 || 1 / k > 0)", "rs.exists(c, rs.all(o, c.i >= o.n.i))",

	// In the other macros the last failure of the condition wins.
	"rs.exists_one(c, c.i > c.n.i)", "is.exists_one(k, 10 / k > 0 || k + 9223372036854775807 > 0)", "is.exists_one(k, (k == 0 ? 1 / k : k + 9223372036854775807) > 0)", "is.filter(k, (k == 0 ? 1 / k : k + 9223372036854775807) > 0)",
	"is.map(k, (k == 0 ? 1 / k : k + 9223372036854775807) > 0, k % k)", "is.map(k, k % (k - 1) == 0, 1 / k)", "is.map(k, k == 0 ? 1 / k : k + 9223372036854775807)",

	// Chained: conditions of the first list fail after values of the second.
	"sum(rs.filter(c, has(c.i)).map(c, c.i))", "sum(rs.filter(c, c.b).map(c, c.i))", "sum(rs.filter(c, c.n.b).map(k, k.i).map(k, k / k))", "size(rs.filter(c, c.b))",
	"size(rs.filter(c, c.b).filter(k, k.i > 0))", "rs.filter(c, c.b).filter(c, c.i > 0).map(c, c.d)", "rs.filter(c, c.b).exists(c, c.i > 0)", "rs.filter(c, c.b).all(c, c.i > 0)",
	"rs.filter(c, c.b).exists_one(c, c.i > 0)", "rs.filter(c, c.b).map(c, c.i > 0, c.i)", "rs.map(c, c.b, c).filter(c, c.i > 0)", "sum(is.filter(k, 1 / k >= 0))", "sum(is.filter(k, k > 0).map(k, 7 % k))",
	"rs.filter(c, true || c.b).filter(d, has(d.i)).map(c, c.i)", "rs.filter(c, has(c.i)).map(c, c.i).filter(k, k > 0).map(k, k - 1)", "sum(is)", "sum(rs.map(c, c.i))", "size(rs.map(c, c.i))",
	"r.l.filter(e, e != '').filter(e, size(e) > 1).map(e, int(e))", "sum(r.l.filter(e, e != 'a').map(e, int(e)))", "rs.map(c, c.i).exists(k, k > 0)", "rs.map(c, c.s).all(e, e in r.l)",
	"size(is.filter(k, 1 / k >= 0).map(k, k % (k - 1)))", "is.filter(k, 1 / k >= 0).map(k, k + 9223372036854775807)", "rs.filter(c, x / c.i >= 0).exists(c, has(c.n))",

	// Nested, with shadowed names.
	"rs.exists(c, [q, r].exists(d, c.i == d.i))", "rs.exists(c, qs.exists(c, c.b))", "rs.map(c, [r, q].filter(d, d.i == c.i))", "rs.map(c, sum(qs.filter(d, d.b).map(d, d.i + c.i)))",
	"[r, q].filter(c, c.l.exists(e, e == c.s))", "rs.all(x, x.b)", "is.map(x, x + 1)", "is.map(r, r + 1)[0]", "is.map(k, is.filter(k, k > 0))", "is.map(k, is.filter(k, k > 0).map(k, k))", "is.filter(k, [x, 2].exists(j, j == k + 1))",
	"is.map(k, [x, 2].map(j, [k, j].map(i, i + j * k)))", "is.map(k, k).map(k, is.map(k, k)[0] + k)", "is.filter(x, x > .x)", "is.exists(x, .x == x || [2, x].exists(x, x == .x))", "rs.filter(c, qs.filter(c, c.b).exists(c, c.i > 0)).map(c, c.i)",
	"is.filter(k, is.filter(k, 1 / k >= 0).exists(j, j > 0)).map(k, 10 / k)", "rs.map(c, [c, q].filter(c, c.b).filter(c, c.i > 0).map(c, c.d))",

	// List literals, indexing and membership.
	"[x, 2, r.i]", "[x, r.i].exists(k, k == 2)", "[t, 'b'].filter(e, e != 'a')", "[r, q].map(c, c.i)", "[y, 1.5].all(d, d > 1.0)", "[r.b, true]", "[[x], [1, 2]].map(l, size(l))", "sum([x, r.i, -1])",
	"is[0]", "is[x]", "is[size(is) - 1]", "is[r.i]", "ds[1]", "bs[0]", "r.l[0]", "rs[0].i", "rs[x].n.i", "has(rs[0].i)", "has(rs[5].n.i)", "rs[0]", "[x, 7][r.i]", "[t, 'b'][1]", "[[1, 2], [x]][1][0]", "rs.filter(c, c.b)[0].i",
	"is.map(k, is[k])", "is.map(k, k - 1)[x]", "rs.map(c, c.l)[0][0]", "[1, 2, 3][x]", "['a', 'b'][x]", "[1, 2, 3][3]", "[1.5, 2.5][1]",
	"x in is", "2 in is", "r.i in [1, 2, x]", "x in [1, 1000]", "y in ds", "y in [1.5, 0.5]", "r.b in bs", "r in rs", "r in [q, r]", "r.s in r.l.map(e, e)", "r.s in [t, 'a']", "r.l in rs.map(c, c.l)", "t in rs.filter(c, c.b).map(c, c.s)",
	"is == [1, 2]", "is == is.map(k, k)", "is.filter(k, k > 0) == [x]", "rs == qs", "rs.filter(c, true) == rs", "r.l == r.l.filter(e, true)", "[x] != [1]", "(r.b ? is : [x]) == is", "(r.b ? rs : qs).filter(c, c.b)",

	// Through functions and variables.
	"sum(vi)", "size(vi)", "vi[0]", "vi.map(k, k + 1)", "sum(vt.map(c, c.i))", "vt.exists(c, has(c.i))", "vi.exists(k, k in vi)", "vt.map(c, size(vt) + size(c.l))", "is.exists(k, k > size(vt))", "rs.map(c, size(vi) + size(vt) >= 0, c.s)", "qs.filter(c, vt.exists(d, d.b)).map(c, c.i)",
	"max(sum(vi), x)", "is.map(k, max(k, x))", "is.map(k, mulDivFloor(k, 2, x))", "sum(vi) + size(vs) > 0 || vs.exists(e, e == t)", "vs[0] == t", "t in vs",

	// Constants.
	"[1, 2, 3].map(k, k * 2)", "[1, 2, 3].exists(k, k == 2) && r.b", "sum([1, 2, 3].filter(k, k > 1))", "[1, 0].map(k, 1 / k)", "[1, 2].filter(k, k > params.i)", "rs.exists(c, [1, 2].exists(k, k == 1) && c.b)",
	"[1, 2].map(k, [k, 3].filter(j, j > k))", "is.map(k, [1, 2].map(j, j + k))", "['a', 'b'].exists(e, e in r.l)", "['a'].all(e, gates.Vouchers)", "is.exists(k, true)", "rs.all(c, false)", "gone > 0 ? is : is.map(k, k)",
}

// listedVariables are the variables that overLists reads.
const listedVariables = `{vo: "now.?i", vn: "r.?n", ve: "rs[?0].?i", vi: "rs.filter(c, has(c.i)).map(c, c.i)", vt: "rs.filter(c, c.b)", vs: "r.l.map(e, e + 'x')"}`

// onFacts is a compiled expression; native is false if it falls back to CEL.
type onFacts struct {
	names  *closure.Namespace
	code   closure.BoxedCode
	run    func(*closure.Frame) // without boxing
	native bool
}

// stageWith compiles a stage with the expression as variable v. It also declares the point mixed.
func stageWith(t testing.TB, expression string) *engine.SetPlan {
	t.Helper()
	plan, err := compileMixed(`
  params: [{name: i, type: int, default: "1"}, {name: missing, type: int}]
  stages: [{name: st, each: one, variables: ` + strings.Replace(listedVariables, "{", `{v: "`+expression+`", `, 1) + `, rules: [{name: r, when: size(vi) + size(vt) + size(vs) > 0 && v == v, note: n}]}]
`)
	require.NoError(t, err, expression)
	return plan.Parts().Points["mixed"].Sets[0]
}

func assembled(set *engine.SetPlan, interpret bool) onFacts {
	st := set.Stages[0]
	a := engine.AssemblerOf(set, st.Vars, interpret)
	out := onFacts{names: a.Namespace()}
	p := st.Vars.Programs[st.Vars.Slots["v"].Index]
	_, out.native = a.Closure(p)
	n := a.Expression(p)
	out.code = closure.Boxed(n)
	switch c := n.Run.(type) {
	case closure.Code[int64]:
		out.run = func(f *closure.Frame) { c(f) }
	case closure.Code[float64]:
		out.run = func(f *closure.Frame) { c(f) }
	case closure.Code[bool]:
		out.run = func(f *closure.Frame) { c(f) }
	default:
		out.run = func(f *closure.Frame) { out.code(f) }
	}
	return out
}

// on returns the expression's value or failure for the first item.
func (e onFacts) on(f *closure.Frame, facts *registry.Facts) string {
	f.Values = facts.Values()
	f.Begin(e.names)
	f.Enter(facts.ByScope()[0][0].Fields().Cells())
	v := e.code(f)
	if err := f.Failure(); err != nil {
		return "failure: " + err.Error()
	}
	return shownValue(v)
}

func shownValue(v ref.Val) string {
	switch v := v.(type) {
	case *lang.Record:
		return show(v)
	case *types.Optional:
		if !v.HasValue() {
			return "none"
		}
		return "optional " + shownValue(v.GetValue())
	case traits.Lister:
		var out []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			out = append(out, shownValue(it.Next()))
		}
		return fmt.Sprintf("%d of %v", v.Size(), out)
	}
	return fmt.Sprintf("%v %v", v.Type(), v.Value())
}

func TestListCodeMatchesCEL(t *testing.T) { holdAgainstCEL(t, overLists) }

// holdAgainstCEL checks that expressions have code and match CEL over many facts.
func holdAgainstCEL(t *testing.T, expressions []string) {
	t.Helper()
	random := rand.New(rand.NewSource(7))
	var given [][]byte
	for range 120 {
		data := make([]byte, 200)
		random.Read(data)
		given = append(given, data)
	}
	for _, expression := range expressions {
		t.Run(expression, func(t *testing.T) {
			set := stageWith(t, expression)
			byCEL, code := assembled(set, true), assembled(set, false)
			require.True(t, code.native, "there is no code")
			frameOfCEL, frameOfCode := &closure.Frame{}, &closure.Frame{}
			for _, data := range given {
				facts := func() *registry.Facts { return (&generator{data: data}).facts() }
				want := byCEL.on(frameOfCEL, facts())
				require.Equal(t, want, code.on(frameOfCode, facts()))
			}
		})
	}
}

func TestCELReadsListsBuiltByCode(t *testing.T) {
	made := lang.ListFrom([]int64{1, 2})
	plain := types.NewRefValList(types.DefaultTypeAdapter, []ref.Val{types.Int(1), types.Int(2)})
	require.Equal(t, types.True, made.Equal(plain))
	require.Equal(t, types.True, plain.Equal(made))
	require.Equal(t, types.True, made.Equal(lang.ListFrom([]int64{1, 2})))
	require.Equal(t, types.False, made.Equal(lang.ListFrom([]int64{2, 1})))
	require.Equal(t, types.False, made.Equal(types.Int(1)))
	require.Equal(t, types.True, lang.ListFrom([]string{"a"}).Equal(types.NewStringList(types.DefaultTypeAdapter, []string{"a"})))
	require.Equal(t, types.True, made.Contains(types.Int(2)))
	require.Equal(t, types.False, made.Contains(types.Int(3)))
	require.Equal(t, types.True, made.Contains(types.Double(2)), "as CEL has it")
	require.Equal(t, "4 of [int 1 int 2 int 1 int 2]", shownValue(made.Add(plain)))
	require.Equal(t, types.Int(2), made.Get(types.Int(1)))
	require.Equal(t, plain.Get(types.Int(2)), made.Get(types.Int(2)), "an error")
	require.Equal(t, types.ListType, made.ConvertToType(types.TypeType))
	require.Equal(t, types.True, made.Equal(made.ConvertToType(types.ListType)))
	native, err := made.ConvertToNative(reflect.TypeFor[[]int64]())
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2}, native)
}

// The admission webhook runs several such loops per pod.
func TestLoopsWithoutListResultDoNotAllocate(t *testing.T) {
	stageWith(t, "0") // declares the point
	facts := threeRecords()
	for _, expression := range []string{
		"rs.exists(c, has(c.n.d))", "rs.all(c, has(c.n.i))", "rs.exists_one(c, c.i == 2)", "r.l.exists(e, e == 'd')", "is.exists(k, k == x)", "x in is", "is[x]",
	} {
		e, f := assembled(stageWith(t, expression), false), &closure.Frame{}
		e.on(f, facts)
		require.Zero(t, testing.AllocsPerRun(10, func() { e.run(f) }), expression)
		require.NoError(t, f.Failure(), expression)
	}
}

// threeRecords are facts with lists of three.
func threeRecords() *registry.Facts {
	facts := mixedPoint.NewFacts().Set("x", lang.Number(1)).Set("r", outerSchema.New().Put("l", lang.ListFrom([]string{"a", "b", "c"}))).Set("is", lang.Box([]int64{1, 2, 3}))
	var records []*lang.Record
	for i := range int64(3) {
		records = append(records, outerSchema.New().SetInt("i", i).SetRecord("n", innerSchema.New().SetInt("i", i)))
	}
	facts.Set("rs", lang.Records(records))
	facts.AddItem("one", "first").Set("t", lang.Text("a"))
	return facts
}
