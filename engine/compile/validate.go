package compile

import (
	"fmt"
	"slices"
	"strings"

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
		v, plain := along.Validation, *along.Validation
		c.axis = along.Axis
		out := &along
		out.Validation = &plain
		for _, at := range v.Places() {
			from := at
			if from.IsZero() {
				from = v.Name
			}
			env, err := c.validationEnv(point, v, at.Value, compiled, len(fields) > 0)
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

// objectPlace names what registry.ObjectTypes know of a place.
type objectPlace struct {
	objects registry.ObjectTypes
	at      string
	schema  bool
}

// typedAt is the part of a validation's environment that is the host's.
func (c *compiler) typedAt(place objectPlace) (*cel.Env, error) {
	if known := c.typed[place]; known != nil {
		return known, nil
	}
	env, err := place.objects.Env(place.at, place.schema)
	if err == nil {
		c.typed[place] = env
	}
	return env, err
}

// validationEnv returns what a validation's expressions see. Schema rules see only what API servers
// know, the others also gates, params and the point's facts.
func (c *compiler) validationEnv(point *registry.Point, v *document.Validation, at string, compiled *engine.SetPlan, hasParams bool) (*cel.Env, error) {
	typed, err := c.typedAt(objectPlace{point.Objects, at, v.EnforcedAt(document.EnforceSchema)})
	if err != nil || v.EnforcedAt(document.EnforceSchema) {
		return typed, err
	}
	options := []cel.EnvOption{
		cel.CustomTypeProvider(&lang.TypeProvider{Provider: typed.CELTypeProvider(), Schemas: c.schemasWith(compiled.Params.Schema())}),
		cel.Variable("gates", c.gateType.CELType()),
	}
	if hasParams {
		options = append(options, cel.Variable("params", compiled.Params.Schema().CELType()))
	}
	for _, fact := range point.Vars {
		options = append(options, cel.Variable(fact.Name, fact.Type.CELType()))
	}
	return typed.Extend(options...)
}

// placed compiles a validation for one place; nil when that failed.
func (c *compiler) placed(point *registry.Point, v *document.Validation, at string, env *cel.Env, sized *sizedSet, plan *engine.ValidationPlan, subject string) *engine.PlacedValidation {
	out := &engine.PlacedValidation{}
	sizes, err := point.Objects.Sizes(at, v.EnforcedAt(document.EnforceSchema))
	if err == nil {
		out.At, err = point.Objects.Place(at)
	}
	if err != nil {
		c.ps.At(v.Name, subject, err.Error())
		return nil
	}
	read := func(s source.Scalar, plain *source.Scalar, want *cel.Type, what string) (*checkedExpression, engine.ValidationCode) {
		if s.IsZero() {
			return nil, nil
		}
		x, prg := c.compileSized(s, env, sizes, sized, subject+", "+what)
		if prg == nil {
			return nil, nil
		}
		if !x.OutputType().IsExactType(want) {
			c.ps.At(s, subject+", "+what, fmt.Sprintf("the expression gives %s, it must give %s", x.OutputType(), want))
		}
		if plain.Value, err = x.plain(); err != nil {
			c.ps.At(s, subject+", "+what, "calls of definitions and axes are only valid beside exists, all, exists_one, filter and map: "+err.Error())
		}
		return x, prg
	}
	condition := func(s source.Scalar, plain *source.Scalar, what string) *engine.Condition {
		x, prg := read(s, plain, cel.BoolType, what)
		if prg == nil {
			return nil
		}
		return &engine.Condition{CEL: prg, Gated: noteReads(plan, x.Ast)}
	}
	plain := plan.Validation
	out.When, out.Expression = condition(v.When, &plain.When, "when"), condition(v.Expression, &plain.Expression, "expression")
	_, out.Message = read(v.MessageExpression, &plain.MessageExpression, cel.StringType, "messageExpression")
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

// noteReads records what a validation reads and calls. gated reports whether the expression reads a
// feature gate.
func noteReads(v *engine.ValidationPlan, ast *cel.Ast) (gated bool) {
	note := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.IdentKind:
			note(&v.Reads, e.AsIdent())
			gated = gated || e.AsIdent() == "gates"
		case celast.CallKind:
			note(&v.Calls, e.AsCall().FunctionName())
		}
	}))
	return gated
}

// validationsAlong expands each validation with an axis to one per value.
func (c *compiler) validationsAlong(set *document.RuleSet) (out []engine.ValidationPlan) {
	for i := range set.Validations {
		v := &set.Validations[i]
		subject := "RuleSet " + set.ID() + ", validation " + v.Name.Value
		var axis *lang.Axis
		if len(v.Axes) > 0 {
			if axis = c.axisNamed(v.Axes[0], subject); axis == nil {
				continue
			}
		}
		if len(v.Axes) > 1 {
			c.ps.At(v.Axes[1], subject, "a validation has one axis at most")
		}
		for _, value := range c.valuesBut(axis, v.Without, subject) {
			out = append(out, engine.ValidationPlan{Validation: along(v, value), Axis: value})
		}
	}
	return out
}

// along writes an axis value into texts and paths: {resource} becomes cpu, [resource] in fieldPath
// ['cpu']. Expressions are rewritten when they are compiled.
func along(v *document.Validation, value *lang.AxisValue) *document.Validation {
	if value == nil {
		return v
	}
	out := *v
	out.Message.Value = value.Text(v.Message.Value)
	out.FieldPath.Value = strings.ReplaceAll(v.FieldPath.Value, "["+value.Axis.Name+"]", "['"+value.Value+"']")
	out.At = slices.Clone(v.At)
	for i := range out.At {
		out.At[i].Value = value.Path(out.At[i].Value)
	}
	return &out
}
