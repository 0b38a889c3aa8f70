package engine

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types/ref"
	"github.com/stretchr/testify/require"
)

// The tests use a world of their own, a shop, which shows that the engine knows nothing of its host.
var (
	lineSchema = NewSchema("Line",
		Field{Name: "price", Type: IntOf("cents")},
		Field{Name: "before", Type: IntOf("cents")},
		Field{Name: "weight", Type: IntOf("grams")})
	customerSchema = NewSchema("Customer",
		Field{Name: "tier", Type: String},
		Field{Name: "discount", Type: RecordOf(lineSchema)},
		Field{Name: "tags", Type: ListOf(String)},
		Field{Name: "vouchers", Type: OpaqueOf(vouchersType, "cents")})
	totalSchema = NewSchema("Total",
		Field{Name: "price", Type: IntOf("cents")},
		Field{Name: "free", Type: Bool})

	adjustPoint = &Point{
		Name: "order.adjust", Kind: StagePoint,
		Vars: []Var{
			{Name: "customer", Type: RecordOf(customerSchema)},
			{Name: "total", Type: RecordOf(totalSchema), Writable: true},
			{Name: "count", Type: Int},
		},
		Scopes: []Scope{{Name: "line", Vars: []Var{{Name: "item", Type: String}, {Name: "now", Type: RecordOf(lineSchema), Writable: true}}}},
	}
	shipPoint = &Point{
		Name: "order.ship", Kind: DecisionPoint,
		Vars:     []Var{{Name: "customer", Type: RecordOf(customerSchema)}, {Name: "lines", Type: ListOf(RecordOf(lineSchema))}},
		Outcomes: []Outcome{{Name: "Ship"}, {Name: "Hold"}, {Name: "Ask"}},
		FailSafe: "Hold",
	}
	validatePoint = &Point{Name: "order.validate", Kind: ValidationPoint, Objects: looseObjects{}, Vars: []Var{
		{Name: "buyer", Type: RecordOf(customerSchema)}, {Name: "others", Type: ListOf(RecordOf(lineSchema))}}}
)

func shop() *Registry {
	r := NewRegistry()
	number := func(suffix string) func(string) (int64, error) {
		return func(s string) (int64, error) {
			n, err := strconv.ParseInt(strings.TrimSuffix(s, suffix), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%q is not an amount", s)
			}
			return n, nil
		}
	}
	r.AddUnit(Unit{Name: "cents", Func: "cents", Doc: "cents", Parse: number("c"), Format: func(n int64) string { return fmt.Sprintf("%dc", n) }})
	r.AddUnit(Unit{Name: "grams", Doc: "grams", Parse: number("g"), Format: func(n int64) string { return fmt.Sprintf("%dg", n) }})
	r.AddFunction("voucher", FirstUnit, "what a voucher is worth", Func2(func(v vouchers, name string) int64 { return v.worth[name] }))
	r.AddReader(vouchersType, func(pairs []Pair, unit Unit) (ref.Val, error) {
		out := vouchers{worth: map[string]int64{}}
		for _, p := range pairs {
			n, err := unit.Parse(p.Value)
			if err != nil {
				return nil, fmt.Errorf("voucher %s: %w", p.Key, err)
			}
			out.worth[p.Key] = n
		}
		return out, nil
	})
	r.AddGate("Vouchers", "vouchers")
	r.AddAxis(Axis{Name: "measure", Plural: "measures", Values: []string{"price", "weight"}})
	r.AddPoint(adjustPoint)
	r.AddPoint(shipPoint)
	r.AddPoint(validatePoint)
	return r
}

var vouchersType = cel.OpaqueType("Vouchers")

// vouchers is a type of the host that rules cannot look into.
type vouchers struct {
	ref.Val
	worth map[string]int64
}

// Type implements ref.Val.
func (vouchers) Type() ref.Type { return vouchersType }

// looseObjects types self as dyn and selects the object or the entries of its list "lines".
type looseObjects struct{}

func (looseObjects) Env(at string, schema bool) (*cel.Env, error) {
	if at != "" && at != "lines[*]" && at != "gifts[*]" {
		return nil, fmt.Errorf("there is no %q", at)
	}
	options := []cel.EnvOption{cel.Variable("self", cel.DynType), cel.Variable("oldSelf", cel.DynType)}
	if !schema {
		options = append(options, cel.Variable("oldObject", cel.DynType))
	}
	return cel.NewEnv(options...)
}

func (looseObjects) Sizes(string, bool) (checker.CostEstimator, error) { return smallSizes{}, nil }

// smallSizes says that nothing is large.
type smallSizes struct{}

func (smallSizes) EstimateSize(checker.AstNode) *checker.SizeEstimate {
	return &checker.SizeEstimate{Max: maxListSize}
}

func (smallSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

func (looseObjects) FieldPath(_, below string) (string, error) {
	path, isChild := strings.CutPrefix(below, ".")
	if !isChild {
		return "", fmt.Errorf("expected . but got %s", below)
	}
	return path, nil
}

func (looseObjects) Open(object, old map[string]any) ObjectView { return looseView{object, old} }

type looseView struct{ object, old map[string]any }

func (v looseView) Values(at string) ([]ObjectValue, error) {
	vars := func(self, old any) map[string]any {
		return map[string]any{"self": self, "oldSelf": old, "oldObject": v.old}
	}
	if at == "" {
		return []ObjectValue{{Vars: vars(v.object, v.old), Unchanged: reflect.DeepEqual(v.object, v.old)}}, nil
	}
	var out []ObjectValue
	list := strings.TrimSuffix(at, "[*]")
	lines, _ := v.object[list].([]any)
	for i, line := range lines {
		out = append(out, ObjectValue{Path: fmt.Sprintf("%s[%d]", list, i), Vars: vars(line, nil), Unchanged: reflect.DeepEqual(v.object[list], v.old[list])})
	}
	return out, nil
}

const onePipeline = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: Pipeline
metadata: {name: p}
spec:
  version: 1.0.0
  points: {order.adjust: [], order.ship: [], order.validate: []}
`

// ruleSet wraps a spec body into a rule set called s at a point.
func ruleSet(point, body string) string {
	return "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: s}\nspec:\n  version: 1.0.0\n  point: " + point + "\n" + body
}

// oneRuleSet is a rule set with the pipeline that runs it; line 7 of s.yaml is the first of the body.
func oneRuleSet(r *Registry, point, body string) fstest.MapFS {
	pipeline := onePipeline
	for _, p := range r.Points() {
		if !strings.Contains(pipeline, p.Name+":") {
			pipeline = strings.Replace(pipeline, "{", "{"+p.Name+": [], ", 2)
			pipeline = strings.Replace(pipeline, "{"+p.Name+": [], name", "{name", 1)
		}
	}
	return fstest.MapFS{
		"s.yaml": {Data: []byte(ruleSet(point, body))},
		"p.yaml": {Data: []byte(strings.Replace(pipeline, point+": []", point+": [s@1.0.0]", 1))},
	}
}

// compileOne compiles one rule set.
func compileOne(point, body string, opts CompileOptions) (*Plan, error) {
	return compileAt(shop(), point, body, opts)
}

// compileAt is compileOne for a registry of its own.
func compileAt(r *Registry, point, body string, opts CompileOptions) (*Plan, error) {
	lib, err := Loader{}.Load(Layer{FS: oneRuleSet(r, point, body)})
	if err != nil {
		return nil, err
	}
	opts.Pipeline = "p"
	return Compile(lib, r, opts)
}

func mustCompile(t testing.TB, point, body string, opts CompileOptions) *Plan {
	t.Helper()
	plan, err := compileOne(point, body, opts)
	require.NoError(t, err)
	return plan
}

func order(prices ...int64) *Facts {
	f := adjustPoint.NewFacts()
	f.Set("customer", customerSchema.New().SetString("tier", "gold").SetStrings("tags", []string{"new"}))
	f.Set("total", totalSchema.New()).Set("count", Number(int64(len(prices))))
	for i, p := range prices {
		f.AddItem("line", fmt.Sprintf("line-%d", i)).Set("item", Text(fmt.Sprintf("line-%d", i))).
			Set("now", lineSchema.New().SetInt("price", p))
	}
	return f
}

func line(f *Facts, i int) *Record { return f.items[0][i].Record("now") }

func price(t testing.TB, r *Record) int64 {
	t.Helper()
	n, ok := r.Int("price")
	require.True(t, ok, "price is unset")
	return n
}

// inWords is what a function says of each of a list.
func inWords[T any](list []T, word func(T) string) []string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		out = append(out, word(x))
	}
	return out
}
