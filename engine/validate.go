package engine

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
)

func (c *compiler) validations(point *Point, set *RuleSet, compiled *setPlan, params []setting) {
	subject := "RuleSet " + set.ID()
	fields := c.bindParams(set, compiled, params, subject)
	planners := map[bool]*cel.Env{}
	for _, along := range c.validationsAlong(set) {
		v := along.validation
		c.axis = along.axis
		out := &along
		for _, at := range v.Places() {
			from := at
			if from.IsZero() {
				from = v.Name
			}
			env, err := c.validationEnv(point, set, v, at.Value, compiled, len(fields) > 0)
			if err != nil {
				c.ps.at(from, subject+", validation "+v.Name.Value, err.Error())
				continue
			}
			// A program keeps the environment that planned it, and each environment a table of all functions. All environments of
			// a set have the same functions, so the first one plans for all.
			planner := planners[v.EnforcedAt(EnforceSchema)]
			if planner == nil {
				planner, planners[v.EnforcedAt(EnforceSchema)] = env, env
			}
			if place := c.placed(point, v, at.Value, env, planner, out, subject+", validation "+v.Name.Value); place != nil {
				out.places = append(out.places, place)
			}
		}
		compiled.validations = append(compiled.validations, out)
	}
	c.axis = nil
}

// validationEnv is what the expressions of a validation see. Rules of the schema see what an API server knows; the others
// also see the gates, the params and the facts of the point.
func (c *compiler) validationEnv(point *Point, set *RuleSet, v *Validation, at string, compiled *setPlan, hasParams bool) (*cel.Env, error) {
	schema := v.EnforcedAt(EnforceSchema)
	env, err := point.Objects.Env(at, schema)
	if err != nil || schema {
		return env, err
	}
	options := []cel.EnvOption{
		cel.CustomTypeProvider(&provider{Provider: env.CELTypeProvider(), schemas: c.schemasWith(compiled.params.schema)}),
		cel.Variable("gates", c.gateType.cel),
	}
	if hasParams {
		options = append(options, cel.Variable("params", compiled.params.schema.cel))
	}
	for _, fact := range point.Vars {
		options = append(options, cel.Variable(fact.Name, fact.Type.cel))
	}
	return env.Extend(options...)
}

// placed compiles a validation for one place; nil when that failed.
func (c *compiler) placed(point *Point, v *Validation, at string, env, planner *cel.Env, plan *validationPlan, subject string) *placedValidation {
	out := &placedValidation{at: at}
	sizes, err := point.Objects.Sizes(at, v.EnforcedAt(EnforceSchema))
	if err != nil {
		c.ps.at(v.Name, subject, err.Error())
		return nil
	}
	read := func(s Scalar, want *cel.Type, what string) cel.Program {
		if s.IsZero() {
			return nil
		}
		ast, prg := c.compileSized(s, env, planner, nil, sizes, subject+", "+what)
		if prg == nil {
			return nil
		}
		if !ast.OutputType().IsExactType(want) {
			c.ps.at(s, subject+", "+what, fmt.Sprintf("the expression gives %s, it must give %s", ast.OutputType(), want))
		}
		if what != "messageExpression" {
			noteReads(plan, ast)
		}
		return prg
	}
	out.when = read(v.When, cel.BoolType, "when")
	out.expression = read(v.Expression, cel.BoolType, "expression")
	out.message = read(v.MessageExpression, cel.StringType, "messageExpression")
	if !v.FieldPath.IsZero() {
		if out.fieldPath, err = point.Objects.FieldPath(at, v.FieldPath.Value); err != nil {
			c.ps.at(v.FieldPath, subject+", fieldPath", err.Error())
		}
	}
	if out.expression == nil {
		return nil
	}
	return out
}

// noteReads notes which variables a validation reads and what it calls.
func noteReads(v *validationPlan, ast *cel.Ast) {
	note := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.IdentKind:
			note(&v.reads, e.AsIdent())
		case celast.CallKind:
			note(&v.calls, e.AsCall().FunctionName())
		}
	}))
}
