package backtest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine/faults"
)

// Figures are the measures of a class by the names that conditions have for them. docs/backtest.md defines them.
var figures = []struct {
	name string
	of   func(m *Measures, hours float64) float64
}{
	{"cores", func(m *Measures, hours float64) float64 { return ratio(m.CPU.RequestedCoreHours, hours) }},
	{"gib", func(m *Measures, hours float64) float64 { return ratio(m.Memory.RequestedGiBHours, hours) }},
	{"footprint", func(m *Measures, hours float64) float64 { return ratio(m.footprint(), hours) }},
	{"cpuSlack", func(m *Measures, _ float64) float64 { return m.CPU.SlackShare }},
	{"memSlack", func(m *Measures, _ float64) float64 { return m.Memory.SlackShare }},
	{"cpuOver", func(m *Measures, _ float64) float64 { return m.CPU.OverRequestShare }},
	{"memOver", func(m *Measures, _ float64) float64 { return m.Memory.OverRequestShare }},
	{"throttled", func(m *Measures, _ float64) float64 { return m.CPU.ThrottledCoreSeconds / 3600 }},
	{"ooms", func(m *Measures, _ float64) float64 { return float64(m.OOMs) }},
	{"evictions", func(m *Measures, _ float64) float64 { return float64(m.Evictions) }},
	{"resizes", func(m *Measures, _ float64) float64 { return float64(m.Resizes) }},
	{"changes", func(m *Measures, _ float64) float64 { return float64(m.Evictions + m.Resizes) }},
	{"flaps", func(m *Measures, _ float64) float64 { return float64(m.Flaps) }},
}

// FigureNames are the names that conditions know. Those of policy upstream have a prefix, upstream.
func FigureNames() (out []string) {
	for _, f := range figures {
		out = append(out, f.name)
	}
	return out
}

// Condition says which policies will do, in CEL, and which of these is the best.
type Condition struct {
	Text  string // as it was written
	Least string // the figure
	parts []part // all must hold
}

// part is a condition that holds or not. Both sides of a comparison say how far it is from holding.
type part struct {
	text     string
	programs []cel.Program // whether it holds, and both sides if it compares two
}

// NewCondition compiles a condition over figures.
func NewCondition(text, least string) (*Condition, error) {
	if err := CheckFigure(least); err != nil {
		return nil, err
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("it is empty: write a condition, such as ooms <= upstream.ooms")
	}
	options := []cel.EnvOption{cel.ClearMacros()}
	for _, f := range figures {
		options = append(options, cel.Variable(f.name, cel.DoubleType), cel.Variable(Upstream+"."+f.name, cel.DoubleType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, err
	}
	c := compiler{env}
	checked, root, err := c.check(text)
	if err != nil {
		return nil, err
	}
	if got := checked.OutputType(); !got.IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("it is not a condition but of type %s: compare it with something, such as cores <= upstream.cores", got)
	}
	out := &Condition{Text: text, Least: least}
	return out, c.split(root, root.Expr(), &out.parts)
}

// CheckFigure refuses a name that is no figure.
func CheckFigure(name string) error {
	if slices.Contains(FigureNames(), name) {
		return nil
	}
	own, _ := strings.CutPrefix(name, Upstream+".")
	return fmt.Errorf("there is no figure %s; %sfigures are %s, and those of policy upstream, such as upstream.cores", name, faults.Near(own, FigureNames()), strings.Join(FigureNames(), ", "))
}

// compiler compiles a condition and what it consists of.
type compiler struct{ *cel.Env }

// check checks an expression, in which whole numbers count as any other. root is the expression as it was written.
func (c compiler) check(text string) (checked *cel.Ast, root *celast.AST, err error) {
	written, issues := c.Parse(text)
	if issues.Err() != nil {
		return nil, nil, fault(issues)
	}
	if err := knowsFigures(written.NativeRep().Expr()); err != nil {
		return nil, nil, err
	}
	parsed, _ := c.Parse(text)
	to := celast.NewExprFactory()
	celast.PostOrderVisit(parsed.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.LiteralKind {
			if n, whole := e.AsLiteral().(types.Int); whole {
				e.SetKindCase(to.NewLiteral(e.ID(), types.Double(n)))
			}
		}
	}))
	checked, issues = c.Check(parsed)
	if issues.Err() != nil {
		return nil, nil, fault(issues)
	}
	return checked, written.NativeRep(), nil
}

// fault is the first of some issues, in a line.
func fault(issues *cel.Issues) error {
	first := issues.Errors()[0]
	return fmt.Errorf("column %d: %s", first.Location.Column()+1, first.Message)
}

// knowsFigures refuses names that are no figures.
func knowsFigures(e celast.Expr) error {
	names := map[int64]string{}
	celast.PostOrderVisit(e, celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.IdentKind {
			names[e.ID()] = e.AsIdent()
		}
		if e.Kind() == celast.SelectKind && e.AsSelect().Operand().Kind() == celast.IdentKind {
			of := e.AsSelect().Operand()
			names[e.ID()] = of.AsIdent() + "." + e.AsSelect().FieldName()
			delete(names, of.ID())
		}
	}))
	for _, id := range slices.Sorted(maps.Keys(names)) {
		own, _ := strings.CutPrefix(names[id], Upstream+".")
		if CheckFigure(own) != nil {
			return CheckFigure(names[id])
		}
	}
	return nil
}

// split adds the parts that must all hold.
func (c compiler) split(in *celast.AST, e celast.Expr, to *[]part) error {
	var name string
	var args []celast.Expr
	if e.Kind() == celast.CallKind {
		name, args = e.AsCall().FunctionName(), e.AsCall().Args()
	}
	if name == operators.LogicalAnd {
		if err := c.split(in, args[0], to); err != nil {
			return err
		}
		return c.split(in, args[1], to)
	}
	compiled := []celast.Expr{e}
	if slices.Contains([]string{operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.Equals}, name) {
		compiled = append(compiled, args...)
	}
	var p part
	for i, e := range compiled {
		text, err := cel.ExprToString(e, in.SourceInfo())
		if err != nil {
			return err
		}
		checked, _, err := c.check(text)
		if err != nil {
			return err
		}
		program, err := c.Program(checked)
		if err != nil {
			return err
		}
		if p.programs = append(p.programs, program); i == 0 {
			p.text = text
		}
	}
	*to = append(*to, p)
	return nil
}

// values are the figures of a class and, with a prefix, those of the same class under policy upstream.
func values(m, upstream *Measures, hours float64) map[string]any {
	out := map[string]any{}
	for _, f := range figures {
		out[f.name], out[Upstream+"."+f.name] = f.of(m, hours), f.of(upstream, hours)
	}
	return out
}

// unmet lists the parts that do not hold, with both sides, and says how far that is: the sum of relative differences.
func (c *Condition) unmet(values map[string]any) (list []string, far float64, err error) {
	for _, p := range c.parts {
		var got []any
		for _, program := range p.programs {
			value, _, err := program.Eval(values)
			if err != nil {
				return nil, 0, fmt.Errorf("%s: %w", p.text, err)
			}
			got = append(got, value.Value())
		}
		if got[0] == true {
			continue
		}
		text, gap := p.text, 1.0
		if len(got) == 3 {
			a, number := got[1].(float64)
			b, other := got[2].(float64)
			if number && other {
				text = fmt.Sprintf("%s (%s and %s)", text, digits(a), digits(b))
				gap = math.Abs(a-b) / max(math.Abs(a), math.Abs(b), math.SmallestNonzeroFloat64)
			}
		}
		list, far = append(list, text), far+gap
	}
	return list, far, nil
}

// digits writes a figure with four digits, or all before the point.
func digits(value float64) string {
	places := 4
	if value != 0 {
		places = max(0, 3-int(math.Floor(math.Log10(math.Abs(value)))))
	}
	text := strconv.FormatFloat(value, 'f', places, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
