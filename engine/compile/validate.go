package compile

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

func (c *compiler) validations(point *registry.Point, set *document.RuleSet, compiled *engine.SetPlan, params []setting) {
	subject := "RuleSet " + set.ID()
	fields := c.bindParams(set, compiled, params, subject)
	sets := map[bool]*sizedSet{true: {}, false: {}} // by whether the schema enforces them
	for _, along := range c.validationsAlong(set) {
		v := along.Validation
		c.axis = along.Axis
		out := &along
		for _, at := range v.Places() {
			from := at
			if from.IsZero() {
				from = v.Name
			}
			env, err := c.validationEnv(point, set, v, at.Value, compiled, len(fields) > 0)
			if err != nil {
				c.ps.At(from, subject+", validation "+v.Name.Value, err.Error())
				continue
			}
			if place := c.placed(point, v, at.Value, env, sets[v.EnforcedAt(document.EnforceSchema)], out, subject+", validation "+v.Name.Value); place != nil {
				out.Places = append(out.Places, place)
			}
		}
		compiled.Validations = append(compiled.Validations, out)
	}
	c.axis = nil
	for _, schema := range []bool{true, false} {
		if err := sets[schema].plan(point.Objects); err != nil {
			c.ps.At(set.Name, subject, err.Error())
		}
	}
}

// sizedSet are the expressions of a set's validations, whose environments have the same functions.
type sizedSet struct {
	env    *cel.Env // the first
	asts   []*cel.Ast
	finish []func(plan func(*cel.Ast) (cel.Program, error))
}

func (s *sizedSet) plan(objects registry.ObjectTypes) error {
	if len(s.asts) == 0 {
		return nil
	}
	plan, err := objects.Planner(s.env, s.asts)
	if err != nil {
		return err
	}
	for _, finish := range s.finish {
		finish(plan)
	}
	return nil
}

// objectEnv names an environment of registry.ObjectTypes.
type objectEnv struct {
	objects registry.ObjectTypes
	at      string
	schema  bool
}

// validationEnv is what a validation's expressions see. Schema rules see only what API servers
// know, the others also gates, params and the point's facts.
func (c *compiler) validationEnv(point *registry.Point, set *document.RuleSet, v *document.Validation, at string, compiled *engine.SetPlan, hasParams bool) (*cel.Env, error) {
	key := objectEnv{point.Objects, at, v.EnforcedAt(document.EnforceSchema)}
	env, ok := c.typed[key]
	if !ok {
		var err error
		if env, err = point.Objects.Env(at, key.schema); err != nil {
			return nil, err
		}
		c.typed[key] = env
	}
	if key.schema {
		return env, nil
	}
	options := []cel.EnvOption{
		cel.CustomTypeProvider(&lang.TypeProvider{Provider: env.CELTypeProvider(), Schemas: c.schemasWith(compiled.Params.Schema())}),
		cel.Variable("gates", c.gateType.CELType()),
	}
	if hasParams {
		options = append(options, cel.Variable("params", compiled.Params.Schema().CELType()))
	}
	for _, fact := range point.Vars {
		options = append(options, cel.Variable(fact.Name, fact.Type.CELType()))
	}
	return env.Extend(options...)
}

// placed compiles a validation for one place; nil when that failed.
func (c *compiler) placed(point *registry.Point, v *document.Validation, at string, env *cel.Env, sized *sizedSet, plan *engine.ValidationPlan, subject string) *engine.PlacedValidation {
	out := &engine.PlacedValidation{At: at}
	sizes, err := point.Objects.Sizes(at, v.EnforcedAt(document.EnforceSchema))
	if err != nil {
		c.ps.At(v.Name, subject, err.Error())
		return nil
	}
	read := func(s source.Scalar, want *cel.Type, what string) engine.ValidationCode {
		if s.IsZero() {
			return nil
		}
		ast, prg := c.compileSized(s, env, nil, sizes, sized, subject+", "+what)
		if prg == nil {
			return nil
		}
		if !ast.OutputType().IsExactType(want) {
			c.ps.At(s, subject+", "+what, fmt.Sprintf("the expression gives %s, it must give %s", ast.OutputType(), want))
		}
		if what != "messageExpression" {
			noteReads(plan, ast)
		}
		return prg
	}
	out.When = read(v.When, cel.BoolType, "when")
	out.Expression = read(v.Expression, cel.BoolType, "expression")
	out.Message = read(v.MessageExpression, cel.StringType, "messageExpression")
	if !v.FieldPath.IsZero() {
		if out.FieldPath, err = point.Objects.FieldPath(at, v.FieldPath.Value); err != nil {
			c.ps.At(v.FieldPath, subject+", fieldPath", err.Error())
		}
	}
	if out.Expression == nil {
		return nil
	}
	return out
}

// noteReads records what a validation reads and calls.
func noteReads(v *engine.ValidationPlan, ast *cel.Ast) {
	note := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.IdentKind:
			note(&v.Reads, e.AsIdent())
		case celast.CallKind:
			note(&v.Calls, e.AsCall().FunctionName())
		}
	}))
}
