package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
)

// scopeEnv is the environment of an expression with what the engine knows beyond CEL: units, slots and
// which variables may be written.
type scopeEnv struct {
	env      *cel.Env
	types    map[string]Type
	writable map[string]bool
	slots    map[string]slot
	schemas  map[string]*Schema
}

// child copies the scope, so that a stage's names do not leak into the next.
func (s *scopeEnv) child() *scopeEnv {
	return &scopeEnv{env: s.env, types: maps.Clone(s.types), writable: maps.Clone(s.writable), slots: maps.Clone(s.slots), schemas: s.schemas}
}

func (s *scopeEnv) declare(options *[]cel.EnvOption, name string, t Type, writable bool, at slot) {
	*options = append(*options, cel.Variable(name, t.cel))
	at.steady = !writable && (at.kind == factSlot || at.kind == paramSlot || at.kind == gateSlot)
	s.types[name], s.writable[name], s.slots[name] = t, writable, at
}

func (s *scopeEnv) writables() []string {
	var out []string
	for _, name := range sortedKeys(s.writable) {
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

// variables compiles named expressions in order; each sees those before it.
func (c *compiler) variables(list []Variable, sc *scopeEnv, subject string) []*program {
	var out []*program
	for _, v := range list {
		at := subject + ", variable " + v.Name.Value
		if _, taken := sc.types[v.Name.Value]; taken {
			c.ps.at(v.Name, at, fmt.Sprintf("the name %q is taken by a fact; choose another", v.Name.Value))
			continue
		}
		ast, p := c.expression(v.Expression, sc, at)
		if p == nil {
			continue
		}
		var options []cel.EnvOption
		t := Type{cel: ast.OutputType(), unit: c.unitOf(ast, sc, v.Expression, at)}
		sc.declare(&options, v.Name.Value, t, false, slot{kind: variableSlot, index: len(out)})
		if c.extend(sc, options, v.Name, at) {
			out = append(out, p)
		}
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
	ast, prg := c.compile(s, sc.env, subject, cel.EvalOptions(cel.OptOptimize))
	if prg == nil {
		return nil, nil
	}
	p := &program{prg: prg, ast: ast.NativeRep(), pos: s.Pos}
	celast.PreOrderVisit(p.ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.IdentKind && !slices.Contains(p.reads, identName(e)) {
			p.reads = append(p.reads, identName(e))
		}
	}))
	return ast, p
}

func (c *compiler) compile(s Scalar, env *cel.Env, subject string, options ...cel.ProgramOption) (*cel.Ast, cel.Program) {
	if strings.TrimSpace(s.Value) == "" {
		c.ps.at(s, subject, "the expression is empty")
		return nil, nil
	}
	if len(s.Value) > maxExpressionSize {
		c.ps.at(s, subject, fmt.Sprintf("the expression has %d bytes; at most %d are read: split it with variables", len(s.Value), maxExpressionSize))
		return nil, nil
	}
	ast, issues := env.Compile(s.Value)
	if issues != nil && issues.Err() != nil {
		for _, e := range issues.Errors() {
			pos := s.At(e.Location.Line(), e.Location.Column())
			c.ps.add(&Problem{Pos: pos, Subject: subject, Message: e.Message, Excerpt: excerpt(s.lines, pos)})
		}
		return nil, nil
	}
	if c.used != nil {
		c.used.visit(ast)
	}
	if err := tooCostly(env, ast); err != nil {
		c.ps.at(s, subject, err.Error())
		return nil, nil
	}
	prg, err := env.Program(ast, options...)
	if err != nil {
		c.ps.at(s, subject, err.Error())
		return nil, nil
	}
	return ast, prg
}
