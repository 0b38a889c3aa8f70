package engine_test

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

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// The host of these tests is a shop, which shows that the engine does not depend on celvpa's host.
var (
	lineSchema = lang.NewSchema("Line",
		lang.Field{Name: "price", Type: lang.IntOf("cents")},
		lang.Field{Name: "before", Type: lang.IntOf("cents")},
		lang.Field{Name: "weight", Type: lang.IntOf("grams")})
	customerSchema = lang.NewSchema("Customer",
		lang.Field{Name: "tier", Type: lang.String},
		lang.Field{Name: "discount", Type: lang.RecordOf(lineSchema)},
		lang.Field{Name: "tags", Type: lang.ListOf(lang.String)},
		lang.Field{Name: "notes", Type: lang.Texts},
		lang.Field{Name: "vouchers", Type: lang.OpaqueOf(vouchersType, "cents")})
	totalSchema = lang.NewSchema("Total",
		lang.Field{Name: "price", Type: lang.IntOf("cents")},
		lang.Field{Name: "free", Type: lang.Bool})

	adjustPoint = &registry.Point{
		Name: "order.adjust", Kind: registry.StagePoint,
		Vars: []registry.Var{
			{Name: "customer", Type: lang.RecordOf(customerSchema)},
			{Name: "total", Type: lang.RecordOf(totalSchema), Writable: true},
			{Name: "count", Type: lang.Int},
		},
		Scopes: []registry.Scope{{Name: "line", Vars: []registry.Var{{Name: "item", Type: lang.String}, {Name: "now", Type: lang.RecordOf(lineSchema), Writable: true}}}},
	}
	shipPoint = &registry.Point{
		Name: "order.ship", Kind: registry.DecisionPoint,
		Vars:     []registry.Var{{Name: "customer", Type: lang.RecordOf(customerSchema)}, {Name: "lines", Type: lang.ListOf(lang.RecordOf(lineSchema))}},
		Outcomes: []registry.Outcome{{Name: "Ship"}, {Name: "Hold", Classed: true}, {Name: "Ask"}},
		FailSafe: "Hold",
		Classes:  []registry.Class{{Name: "Fine"}, {Name: "Late"}},
	}
	validatePoint = &registry.Point{Name: "order.validate", Kind: registry.ValidationPoint, Objects: looseObjects{}, Vars: []registry.Var{
		{Name: "buyer", Type: lang.RecordOf(customerSchema)}, {Name: "others", Type: lang.ListOf(lang.RecordOf(lineSchema))}}}
)

func shop() *registry.Registry {
	r := registry.New()
	number := func(suffix string) func(string) (int64, error) {
		return func(s string) (int64, error) {
			n, err := strconv.ParseInt(strings.TrimSuffix(s, suffix), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%q is not an amount", s)
			}
			return n, nil
		}
	}
	r.AddUnit(lang.Unit{Name: "cents", Func: "cents", Doc: "cents", Parse: number("c"), Format: func(n int64) string { return fmt.Sprintf("%dc", n) }})
	r.AddUnit(lang.Unit{Name: "grams", Doc: "grams", Parse: number("g"), Format: func(n int64) string { return fmt.Sprintf("%dg", n) }})
	r.AddFunction("voucher", closure.FirstUnit, "what a voucher is worth", registry.Func2(func(v vouchers, name string) int64 { return v.worth[name] }))
	r.AddReader(vouchersType, func(pairs []registry.Pair, unit lang.Unit) (ref.Val, error) {
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
	r.AddAxis(lang.Axis{Name: "measure", Plural: "measures", Values: []string{"price", "weight"}})
	r.AddPoint(adjustPoint)
	r.AddPoint(shipPoint)
	r.AddPoint(validatePoint)
	return r
}

var vouchersType = cel.OpaqueType("Vouchers")

// vouchers is an opaque host type.
type vouchers struct {
	ref.Val
	worth map[string]int64
}

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

func (looseObjects) Planner(env *cel.Env, _ []*cel.Ast) (func(*cel.Ast) (cel.Program, error), error) {
	return func(ast *cel.Ast) (cel.Program, error) { return env.Program(ast) }, nil
}

func (looseObjects) Compiled(string) (map[string]int, map[string]*lang.Schema, error) {
	return nil, nil, nil
}

func (looseObjects) Sizes(string, bool) (checker.CostEstimator, error) { return smallSizes{}, nil }

// smallSizes estimates everything as small.
type smallSizes struct{}

func (smallSizes) EstimateSize(checker.AstNode) *checker.SizeEstimate {
	return &checker.SizeEstimate{Max: lang.MaxListSize}
}

func (smallSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

func (looseObjects) Place(at string) (registry.ObjectPlace, error) { return loosePlace(at), nil }

type loosePlace string

func (p loosePlace) String() string { return string(p) }

func (looseObjects) FieldPath(_, below string) (string, error) {
	path, isChild := strings.CutPrefix(below, ".")
	if !isChild {
		return "", fmt.Errorf("expected . but got %s", below)
	}
	return path, nil
}

func (looseObjects) Open(object, old map[string]any) registry.ObjectView {
	return looseView{object, old}
}

type looseView struct{ object, old map[string]any }

func (v looseView) Values(place registry.ObjectPlace) []registry.ObjectValue {
	at := place.String()
	vars := func(self, old any) map[string]any {
		return map[string]any{"self": self, "oldSelf": old, "oldObject": v.old}
	}
	if at == "" {
		return []registry.ObjectValue{looseValue{vars: vars(v.object, v.old), unchanged: reflect.DeepEqual(v.object, v.old)}}
	}
	var out []registry.ObjectValue
	list := strings.TrimSuffix(at, "[*]")
	lines, _ := v.object[list].([]any)
	for i, line := range lines {
		out = append(out, looseValue{path: fmt.Sprintf("%s[%d]", list, i), vars: vars(line, nil), unchanged: reflect.DeepEqual(v.object[list], v.old[list])})
	}
	return out
}

type looseValue struct {
	path      string
	vars      map[string]any
	unchanged bool
}

func (v looseValue) Path() string         { return v.path }
func (v looseValue) Vars() map[string]any { return v.vars }
func (v looseValue) Cells() []lang.Cell   { return nil }
func (v looseValue) Unchanged() bool      { return v.unchanged }

const onePipeline = `
apiVersion: rules.celvpa.dev/v1alpha1
kind: Pipeline
metadata: {name: p}
spec:
  version: 1.0.0
  points: {order.adjust: [], order.ship: [], order.validate: []}
`

// ruleSet wraps a spec body in a rule set s at a point.
func ruleSet(point, body string) string {
	return "apiVersion: rules.celvpa.dev/v1alpha1\nkind: RuleSet\nmetadata: {name: s}\nspec:\n  version: 1.0.0\n  point: " + point + "\n" + body
}

// oneRuleSet is a rule set and its pipeline; line 7 of s.yaml is the first line of the body.
func oneRuleSet(r *registry.Registry, point, body string) fstest.MapFS {
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

func compileOne(point, body string, opts compile.Options) (*engine.Plan, error) {
	return compileAt(shop(), point, body, opts)
}

func compileAt(r *registry.Registry, point, body string, opts compile.Options) (*engine.Plan, error) {
	lib, err := document.Loader{}.Load(document.Layer{FS: oneRuleSet(r, point, body)})
	if err != nil {
		return nil, err
	}
	opts.Pipeline = "p"
	return compile.Compile(lib, r, opts)
}

func mustCompile(t testing.TB, point, body string, opts compile.Options) *engine.Plan {
	t.Helper()
	plan, err := compileOne(point, body, opts)
	require.NoError(t, err)
	return plan
}

func order(prices ...int64) *registry.Facts {
	f := adjustPoint.NewFacts()
	f.Set("customer", customerSchema.New().SetString("tier", "gold").Put("tags", lang.ListFrom([]string{"new"})))
	f.Set("total", totalSchema.New()).Set("count", lang.Number(int64(len(prices))))
	for i, p := range prices {
		f.AddItem("line", fmt.Sprintf("line-%d", i)).Set("item", lang.Text(fmt.Sprintf("line-%d", i))).
			Set("now", lineSchema.New().SetInt("price", p))
	}
	return f
}

func line(f *registry.Facts, i int) *lang.Record { return f.ByScope()[0][i].Record("now") }

func price(t testing.TB, r *lang.Record) int64 {
	t.Helper()
	n, ok := r.Int("price")
	require.True(t, ok, "price is unset")
	return n
}

// inWords formats each element of a list.
func inWords[T any](list []T, word func(T) string) []string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		out = append(out, word(x))
	}
	return out
}
