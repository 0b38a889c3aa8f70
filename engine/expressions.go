package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celast "github.com/google/cel-go/common/ast"
)

// scopeEnv is the environment of an expression with what the engine knows beyond CEL: units, slots and
// which variables may be written.
type scopeEnv struct {
	env      *cel.Env
	planner  *cel.Env
	types    map[string]Type
	writable map[string]bool
	slots    map[string]slot
	schemas  map[string]*Schema

	params    *Record
	estimates map[string]*estimate // of variables
}

// child copies the scope, so that a stage's names do not leak into the next.
func (s *scopeEnv) child() *scopeEnv {
	return &scopeEnv{env: s.env, planner: s.planner, types: maps.Clone(s.types), writable: maps.Clone(s.writable), slots: maps.Clone(s.slots), schemas: s.schemas,
		params: s.params, estimates: maps.Clone(s.estimates)}
}

func (s *scopeEnv) declare(options *[]cel.EnvOption, name string, t Type, writable bool, at slot) {
	*options = append(*options, cel.Variable(name, t.cel))
	at.steady = !writable && !at.live && (at.kind == factSlot || at.kind == paramSlot || at.kind == gateSlot)
	s.types[name], s.writable[name], s.slots[name] = t, writable, at
}

func (s *scopeEnv) writables() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.writable)) {
		if s.writable[name] {
			for _, f := range s.types[name].schema.fields {
				out = append(out, name+"."+f.Name)
			}
		}
	}
	return out
}

func (c *compiler) extend(sc *scopeEnv, options []cel.EnvOption, at Scalar, subject string) bool {
	env, err := sc.env.Extend(options...)
	if err != nil {
		c.ps.at(at, subject, err.Error())
		return false
	}
	sc.env = env
	return true
}

// variables compiles named expressions, of which each stands behind those that it reads: see ordered.
func (c *compiler) variables(list []Variable, sc *scopeEnv, subject string) []*program {
	var out []*program
	for _, v := range list {
		at := subject + ", variable " + v.Name.Value
		if _, taken := sc.types[v.Name.Value]; taken {
			c.ps.at(v.Name, at, fmt.Sprintf("the name %q is taken by a fact; choose another", v.Name.Value))
			continue
		}
		if c.reg.axes[v.Name.Value] != nil || c.reg.axisWithPlural(v.Name.Value) != nil {
			c.ps.at(v.Name, at, fmt.Sprintf("the name %q is taken by an axis; choose another", v.Name.Value))
			continue
		}
		ast, p := c.expression(v.Expression, sc, at)
		if p == nil {
			continue
		}
		var options []cel.EnvOption
		t := Type{cel: ast.OutputType(), unit: c.unitOf(ast, sc, v.Expression, at)}
		sc.declare(&options, v.Name.Value, t, false, slot{kind: variableSlot, index: len(out)})
		p.estimate.name, sc.estimates[v.Name.Value] = v.Name.Value, p.estimate
		if c.extend(sc, options, v.Name, at) {
			out = append(out, p)
		}
	}
	c.affordableVariables(out)
	return out
}

// ordered sorts variables so that each stands behind those it reads, and reports those that read each other: the order in
// which they are written does not matter. What does not parse stays where it is and is reported when it is compiled.
func (c *compiler) ordered(list []Variable, sc *scopeEnv, subject string) []Variable {
	byName := map[string]int{}
	for i, v := range list {
		byName[v.Name.Value] = i
	}
	reads := func(v Variable) (out []int) {
		if len(v.Expression.Value) > maxExpressionSize {
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
	var out []Variable
	var visit func(i int, path []string)
	visit = func(i int, path []string) {
		path = append(path, list[i].Name.Value)
		switch state[i] {
		case done:
			return
		case waiting:
			c.ps.at(list[i].Expression, subject+", variable "+list[i].Name.Value, "variables read each other in a circle: "+strings.Join(path, " → "))
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
func (c *compiler) condition(s Scalar, sc *scopeEnv, subject string) *program {
	if s.IsZero() {
		return nil
	}
	ast, p := c.expression(s, sc, subject)
	if p == nil {
		return nil
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		c.ps.at(s, subject, fmt.Sprintf("the condition gives %s, it must give bool", ast.OutputType()))
	}
	c.unitOf(ast, sc, s, subject)
	c.constantCondition(s, ast, subject)
	return p
}

// expression compiles one expression; a nil program means that problems were recorded.
func (c *compiler) expression(s Scalar, sc *scopeEnv, subject string) (*cel.Ast, *program) {
	var cost *estimate
	fair := func(ast *cel.Ast) bool {
		if c.recordFields(s, sc.env, ast, subject) {
			cost = c.affordable(s, ast, sc, subject)
		}
		return cost != nil
	}
	ast := c.checked(s, sc.env, sc.types, fair, subject)
	if ast == nil {
		return nil, nil
	}
	planner := sc.planner // it has the same functions; each environment keeps what it needs for planning
	plan := sync.OnceValues(func() (cel.Program, error) {
		return planner.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(maxIterations))
	})
	p := &program{plan: plan, ast: ast.NativeRep(), pos: s.Pos, estimate: cost}
	celast.PreOrderVisit(p.ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.IdentKind && !slices.Contains(p.reads, identName(e)) {
			p.reads = append(p.reads, identName(e))
		}
	}))
	return ast, p
}

// compileSized compiles an expression over objects of which the host knows how large they get.
func (c *compiler) compileSized(s Scalar, env, planner *cel.Env, known map[string]Type, sizes checker.CostEstimator, subject string, options ...cel.ProgramOption) (*cel.Ast, cel.Program) {
	fair := func(ast *cel.Ast) bool {
		err := tooCostly(env, ast, sizes)
		if err != nil {
			c.ps.at(s, subject, err.Error())
		}
		return err == nil
	}
	ast := c.checked(s, env, known, fair, subject)
	if ast == nil {
		return nil, nil
	}
	prg, err := planner.Program(ast, options...)
	if err != nil {
		c.ps.at(s, subject, err.Error())
		return nil, nil
	}
	return ast, prg
}

// checked parses and type-checks an expression; nil means that problems were recorded. fair reports whether it may cost what it
// does, and tells when not.
func (c *compiler) checked(s Scalar, env *cel.Env, known map[string]Type, fair func(*cel.Ast) bool, subject string) *cel.Ast {
	if strings.TrimSpace(s.Value) == "" {
		c.ps.at(s, subject, "the expression is empty")
		return nil
	}
	if err := c.stopped(); err != nil {
		c.ps.at(s, subject, err.Error())
		return nil
	}
	if len(s.Value) > maxExpressionSize {
		c.ps.at(s, subject, fmt.Sprintf("the expression has %d bytes; at most %d are read: split it with variables", len(s.Value), maxExpressionSize))
		return nil
	}
	ast, issues := env.Parse(s.Value)
	if issues.Err() == nil {
		if !c.alongAxes(s, ast, subject) {
			return nil
		}
		ast, issues = env.Check(ast)
	}
	if issues != nil && issues.Err() != nil {
		c.expressionFaults(s, known, subject, issues.Errors())
		return nil
	}
	if !c.literals(s, ast, subject) {
		return nil
	}
	if c.used != nil {
		c.used.visit(ast)
	}
	if !fair(ast) {
		return nil
	}
	return ast
}
