package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celast "github.com/google/cel-go/common/ast"

	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/internal/inline"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// scopeEnv is a CEL environment plus what CEL does not know: units, slots and writable variables.
type scopeEnv struct {
	env      *cel.Env
	planner  *cel.Env
	types    map[string]lang.Type
	missing  map[string]bool // variables that are not declared, because they have faults
	writable map[string]bool
	bounds   map[string]*registry.BoundVar // what may be set and not read
	slots    map[string]closure.Slot
	schemas  map[string]*lang.Schema

	params    *lang.Record
	estimates map[string]*closure.Estimate // of variables
}

// child copies the scope, so that a stage's names do not leak into the next.
func (s *scopeEnv) child() *scopeEnv {
	return &scopeEnv{env: s.env, planner: s.planner, types: maps.Clone(s.types), missing: maps.Clone(s.missing), writable: maps.Clone(s.writable), bounds: maps.Clone(s.bounds), slots: maps.Clone(s.slots), schemas: s.schemas,
		params: s.params, estimates: maps.Clone(s.estimates)}
}

func (s *scopeEnv) declare(options *[]cel.EnvOption, name string, t lang.Type, writable bool, at closure.Slot) {
	*options = append(*options, cel.Variable(name, t.CELType()))
	at.Steady = !writable && !at.Live && (at.Kind == closure.FactSlot || at.Kind == closure.ParamSlot || at.Kind == closure.GateSlot)
	s.types[name], s.writable[name], s.slots[name] = t, writable, at
}

// declareBounds makes bounds known to set and unset, not to expressions.
func (s *scopeEnv) declareBounds(list []registry.BoundVar) {
	for i := range list {
		b := &list[i]
		s.types[b.Name], s.writable[b.Name], s.bounds[b.Name] = b.Type, true, b
	}
}

func (s *scopeEnv) writables() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.writable)) {
		if s.writable[name] {
			for _, f := range s.types[name].Schema().Fields() {
				out = append(out, name+"."+f.Name)
			}
		}
	}
	return out
}

func (c *compiler) extend(sc *scopeEnv, options []cel.EnvOption, at source.Scalar, subject string) bool {
	env, err := sc.env.Extend(options...)
	if err != nil {
		c.ps.At(at, subject, err.Error())
		return false
	}
	sc.env = env
	return true
}

// variables compiles named expressions in the given order: see ordered. A scope has variables once.
func (c *compiler) variables(list []document.Variable, sc *scopeEnv, subject string) []*closure.Program {
	var out []*closure.Program
	sc.missing = map[string]bool{}
	for _, v := range list {
		sc.missing[v.Name.Value] = true
	}
	for _, v := range list {
		at := subject + ", variable " + v.Name.Value
		if _, taken := sc.types[v.Name.Value]; taken {
			c.ps.At(v.Name, at, fmt.Sprintf("the name %q is taken by a fact; choose another", v.Name.Value))
			continue
		}
		if c.reg.Axes()[v.Name.Value] != nil || c.reg.AxisWithPlural(v.Name.Value) != nil {
			c.ps.At(v.Name, at, fmt.Sprintf("the name %q is taken by an axis; choose another", v.Name.Value))
			continue
		}
		x, p := c.expression(v.Expression, sc, at)
		if p == nil {
			continue
		}
		c.variableAsks[v.Name.Value] = c.asks(p)
		var options []cel.EnvOption
		t := lang.TypeOf(x.OutputType(), c.unitOf(x, sc, at))
		sc.declare(&options, v.Name.Value, t, false, closure.Slot{Kind: closure.VariableSlot, Index: len(out)})
		p.Estimate.Name, sc.estimates[v.Name.Value] = v.Name.Value, p.Estimate
		if c.extend(sc, options, v.Name, at) {
			delete(sc.missing, v.Name.Value)
			out = append(out, p)
		}
	}
	return out
}

// ordered sorts variables behind those they read, so that authors may write them in any order, and
// reports cycles. An expression that does not parse is reported when it is compiled.
func (c *compiler) ordered(list []document.Variable, sc *scopeEnv, subject string) []document.Variable {
	byName := map[string]int{}
	for i, v := range list {
		byName[v.Name.Value] = i
	}
	reads := func(v document.Variable) (out []int) {
		if len(v.Expression.Value) > lang.MaxExpressionSize {
			return nil
		}
		ast, issues := sc.env.Parse(v.Expression.Value)
		if issues.Err() != nil {
			return nil
		}
		celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
			if e.Kind() == celast.IdentKind {
				if i, ok := byName[e.AsIdent()]; ok {
					out = append(out, i)
				}
			}
		}))
		return out
	}
	const waiting, done = 1, 2
	state := make([]int, len(list))
	var out []document.Variable
	var visit func(i int, path []string)
	visit = func(i int, path []string) {
		path = append(path, list[i].Name.Value)
		switch state[i] {
		case done:
			return
		case waiting:
			c.ps.At(list[i].Expression, subject+", variable "+list[i].Name.Value, "variables depend on each other in a cycle: "+strings.Join(path, " → "))
			return
		}
		state[i] = waiting
		for _, j := range reads(list[i]) {
			visit(j, path)
		}
		state[i] = done
		out = append(out, list[i])
	}
	for i := range list {
		visit(i, nil)
	}
	return out
}

// condition compiles an optional boolean expression; nil means always.
func (c *compiler) condition(s source.Scalar, sc *scopeEnv, subject string) *closure.Program {
	if s.IsZero() {
		return nil
	}
	x, p := c.expression(s, sc, subject)
	if p == nil {
		return nil
	}
	if !x.OutputType().IsExactType(cel.BoolType) {
		c.ps.At(s, subject, fmt.Sprintf("the condition gives %s, it must give bool", x.OutputType()))
	}
	c.unitOf(x, sc, subject)
	c.constantCondition(s, x.Ast, subject)
	c.missingKeys(x, p.Reads, subject)
	return p
}

// expression compiles one expression; a nil program means that problems were recorded.
func (c *compiler) expression(s source.Scalar, sc *scopeEnv, subject string) (*checkedExpression, *closure.Program) {
	x := c.checked(s, sc.env, sc, subject)
	if x == nil || !c.recordFields(x, sc.env, subject) {
		return nil, nil
	}
	p := &closure.Program{Ast: x.NativeRep(), Pos: s.Pos}
	celast.PreOrderVisit(p.Ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.IdentKind && !slices.Contains(p.Reads, closure.IdentName(e)) {
			p.Reads = append(p.Reads, closure.IdentName(e))
		}
	}))
	if p.Estimate = c.affordable(x, p.Reads, sc, subject); p.Estimate == nil {
		return nil, nil
	}
	planner := sc.planner // same functions, and each planning environment keeps a table of them
	p.Plan = sync.OnceValues(func() (cel.Program, error) { return planner.Program(x.Ast, closure.RunLimits()...) })
	return x, p
}

// compileSized compiles an expression over objects whose size limits the host knows. The result runs
// once the expressions of the set are planned.
func (c *compiler) compileSized(s source.Scalar, env *cel.Env, sizes checker.CostEstimator, set *sizedSet, subject string) (*checkedExpression, engine.ValidationCode) {
	x := c.checked(s, env, nil, subject)
	if x == nil {
		return nil, nil
	}
	if err := tooCostly(env, x.Ast, sizes); err != nil {
		c.ps.At(s, subject, err.Error())
		return nil, nil
	}
	prg := new(cel.Program)
	if set.env == nil {
		set.env = env
	}
	set.asts, set.finish = append(set.asts, x.Ast), append(set.finish, func(plan func(*cel.Ast) (cel.Program, error)) {
		var err error
		if *prg, err = plan(x.Ast); err != nil {
			c.ps.At(s, subject, err.Error())
		}
	})
	return x, func(vars cel.Activation) (v ref.Val, steps int64, err error) {
		v, details, err := (*prg).Eval(vars)
		if cost := details.ActualCost(); cost != nil {
			steps = int64(*cost)
		}
		return v, steps, err
	}
}

// checkedExpression is a type-checked expression, in which calls of definitions and axes are replaced.
type checkedExpression struct {
	*cel.Ast
	at   source.Scalar
	tree *inline.Tree
}

// plain is the expression in plain CEL.
func (x *checkedExpression) plain() (string, error) {
	if !x.tree.Rewritten {
		return x.at.Value, nil
	}
	return x.tree.Text()
}

// problem records a problem at a node.
func (x *checkedExpression) problem(to *source.Collector, e celast.Expr, subject, message string) {
	loc := x.NativeRep().SourceInfo().GetStartLocation(e.ID())
	to.Inside(x.at, loc.Line(), loc.Column(), subject, message)
}

// checked parses and type-checks an expression; nil means that problems were recorded. sc tells what
// unknown names could mean; nil = not known.
func (c *compiler) checked(s source.Scalar, env *cel.Env, sc *scopeEnv, subject string) *checkedExpression {
	if strings.TrimSpace(s.Value) == "" {
		c.ps.At(s, subject, "the expression is empty")
		return nil
	}
	if err := c.goOn(len(s.Value)); err != nil {
		c.ps.At(s, subject, err.Error())
		return nil
	}
	if len(s.Value) > lang.MaxExpressionSize {
		c.ps.At(s, subject, fmt.Sprintf("the expression has %d bytes; at most %d are read: split it with variables", len(s.Value), lang.MaxExpressionSize))
		return nil
	}
	x := &checkedExpression{at: s}
	ast, issues := env.Parse(s.Value)
	if issues.Err() == nil {
		before := len(c.ps.List)
		x.tree = inline.NewTree(ast.NativeRep())
		x.at = c.inlined.Expand(s, x.tree, env.Parse, subject, c.ps)
		c.alongAxes(x.at, x.tree, subject)
		if len(c.ps.List) > before {
			return nil
		}
		ast, issues = env.Check(ast)
	}
	if issues != nil && issues.Err() != nil {
		c.expressionFaults(x.at, env, sc, subject, issues.Errors())
		return nil
	}
	x.Ast, x.tree.AST = ast, ast.NativeRep()
	if !c.literals(x, subject) {
		return nil
	}
	if c.used != nil {
		c.used.visit(ast)
	}
	return x
}
