package engine

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celast "github.com/google/cel-go/common/ast"
)

// ObjectTypes types the objects of a validation point and finds the values inside them.
type ObjectTypes interface {
	// Env returns the environment for rules at a path such as spec.items[*], with self typed as what is there. With
	// schema, it is the one in which an API server compiles the rules of an object's schema: it has self, and oldSelf
	// where there can be one. Otherwise it also has object and oldObject, and what functions the host adds.
	Env(at string, schema bool) (*cel.Env, error)
	// Sizes tells how large what rules at a path read can get; with schema, as an API server estimates it.
	Sizes(at string, schema bool) (checker.CostEstimator, error)
	// FieldPath checks a path below another, and gives it as errors show it.
	FieldPath(at, below string) (string, error)
	// Open looks at one object, and at what it replaces; old is nil for a new object.
	Open(object, old map[string]any) ObjectView
}

// ObjectView finds values in one object.
type ObjectView interface {
	// Values lists what a path selects. The result is shared and must not be changed.
	Values(at string) ([]ObjectValue, error)
}

// ObjectValue is one value that a validation looks at.
type ObjectValue struct {
	Path string         // concrete, e.g. spec.items[2]
	Vars map[string]any // what Env declares, with values
	// Unchanged tells that the value, or something that it is part of, is what it was in the object replaced.
	Unchanged bool
}

// Violation is a validation that an object does not fulfil.
type Violation struct {
	Rule    string // set/validation
	Path    string // concrete path of the offending field
	Self    string // concrete path of what the validation looked at: Path, or what Path is below
	Reason  string // FieldValueInvalid and its siblings
	Message string
	Warning bool // the object is accepted all the same
	Failed  bool // the rule could not judge the object
}

// Judged is what validations look at.
type Judged struct {
	Object map[string]any
	Old    map[string]any // what it replaces; nil = it is new
	Facts  *Facts         // further facts of the point; nil = none
	// Schema runs only the validations that are enforced in the schema.
	Schema bool
}

// placedValidation is a validation compiled for one of its places.
type placedValidation struct {
	at         string
	fieldPath  string // as errors show it
	when       cel.Program
	expression cel.Program
	message    cel.Program
}

func (c *compiler) validations(point *Point, set *RuleSet, compiled *setPlan, params []setting) {
	subject := "RuleSet " + set.ID()
	fields := c.bindParams(set, compiled, params, subject)
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
			if place := c.placed(point, v, at.Value, env, out, subject+", validation "+v.Name.Value); place != nil {
				out.places = append(out.places, place)
			}
		}
		compiled.validations = append(compiled.validations, out)
	}
	c.axis = nil
}

// Places are where a validation looks; a scalar without value stands for the whole object.
func (v *Validation) Places() []Scalar {
	if len(v.At) == 0 {
		return []Scalar{{}}
	}
	return v.At
}

// EnforcedAt reports whether a validation is enforced somewhere: EnforceSchema or EnforceAdmission.
func (v *Validation) EnforcedAt(where string) bool {
	if len(v.Enforce) == 0 {
		return where == EnforceAdmission
	}
	return slices.ContainsFunc(v.Enforce, func(e Scalar) bool { return e.Value == where })
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
func (c *compiler) placed(point *Point, v *Validation, at string, env *cel.Env, plan *validationPlan, subject string) *placedValidation {
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
		ast, prg := c.compileSized(s, env, nil, sizes, subject+", "+what)
		if prg == nil {
			return nil
		}
		if !ast.OutputType().IsExactType(want) {
			c.ps.at(s, subject+", "+what, fmt.Sprintf("the expression gives %s, it must give %s", ast.OutputType(), want))
		}
		if what != "messageExpression" {
			plan.noteReads(ast)
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
func (v *validationPlan) noteReads(ast *cel.Ast) {
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

// transition reports whether a validation compares with what was there before. It is then evaluated for values that did
// not change, too: it says itself what may stay.
func (v *validationPlan) transition() bool {
	return slices.Contains(v.reads, "oldSelf") || slices.Contains(v.reads, "oldObject")
}

// ValidationInfo is a validation as a plan runs it, for those who enforce it elsewhere.
type ValidationInfo struct {
	Rule        string      // set/validation, as violations name it: the same for all values of an axis
	Description string      // of the rule set
	Validation  *Validation // for that value, in CEL that knows no axes
	Reads       []string    // the variables that its condition and expression read, sorted
	Calls       []string    // the functions and operators that they call, sorted
}

// Validations lists the validations at a point in the order in which they run.
func (p *Plan) Validations(point string) []ValidationInfo {
	var out []ValidationInfo
	at := p.at(point)
	if at == nil {
		return nil
	}
	for _, set := range at.sets {
		for _, v := range set.validations {
			out = append(out, ValidationInfo{Rule: set.ruleSet.Name.Value + "/" + v.validation.Name.Value, Description: set.ruleSet.Description, Validation: v.validation.spelt(v.axis),
				Reads: slices.Sorted(slices.Values(v.reads)), Calls: slices.Sorted(slices.Values(v.calls))})
		}
	}
	return out
}
