package engine

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

// usage notes which variables and params of a rule set its expressions read.
type usage struct {
	names map[string]bool // variables, and params as "params.name"
}

// visit notes what an expression reads.
func (u *usage) visit(ast *cel.Ast) {
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.IdentKind:
			u.names[e.AsIdent()] = true
		case celast.SelectKind, celast.CallKind:
			if operand, field, ok := selected(e); ok {
				u.field(operand, field)
			}
			if field, record, ok := fieldInRecord(ast.NativeRep(), e); ok {
				name, _ := literalText(field)
				u.field(record, name)
			}
		}
	}))
}

// field notes a param that is read.
func (u *usage) field(operand celast.Expr, name string) {
	if operand.Kind() == celast.IdentKind && identName(operand) == "params" {
		u.names["params."+name] = true
	}
}

// unused reports variables and params that nothing reads: they suggest a control that is not there.
func (c *compiler) unused(set *RuleSet, used *usage) {
	subject := "RuleSet " + set.ID()
	report := func(what string, name Scalar, key string) {
		if !used.names[key] {
			c.findings.at(name, subject, fmt.Sprintf("%s %s is never read", what, name.Value))
		}
	}
	for _, p := range set.Params {
		name, _ := cutParam(p.Name.Value)
		report("param", p.Name, "params."+name)
	}
	for _, v := range set.Variables {
		report("variable", v.Name, v.Name.Value)
	}
	for _, st := range set.Stages {
		for _, v := range st.Variables {
			report("variable", v.Name, v.Name.Value)
		}
	}
}

// unusedShared reports parameters of a pipeline that none of its rule sets reads.
func (c *compiler) unusedShared(r *resolved, findings *problems) {
	read := map[string]bool{}
	for _, point := range r.points {
		for _, placed := range point.sets {
			for name := range placed.set.readsParams() {
				read[name] = true
			}
		}
	}
	for _, p := range r.pipeline.Params {
		if name, _ := cutParam(p.Name.Value); !read[name] {
			findings.at(p.Name, "Pipeline "+r.pipeline.ID(), "param "+name+" is never read")
		}
	}
}

// unreachable reports decisions that can never be taken: behind a row that always holds, or with a condition that an
// earlier row has.
func (c *compiler) unreachable(set *RuleSet) {
	subject := "RuleSet " + set.ID()
	seen := map[string]string{}
	always := ""
	for _, d := range set.Decisions {
		condition := strings.Join(strings.Fields(d.When.Value), " ")
		switch {
		case always != "":
			c.findings.at(d.Name, subject, fmt.Sprintf("decision %s is never reached: %s before it always holds", d.Name.Value, always))
		case seen[condition] != "":
			c.findings.at(d.Name, subject, fmt.Sprintf("decision %s is never reached: %s before it has the same condition", d.Name.Value, seen[condition]))
		}
		if condition == "" || condition == "true" {
			always = d.Name.Value
		} else {
			seen[condition] = d.Name.Value
		}
	}
}

// constantCondition reports conditions that are literally false: their rule can never fire.
func (c *compiler) constantCondition(s Scalar, ast *cel.Ast, subject string) {
	if e := ast.NativeRep().Expr(); e.Kind() == celast.LiteralKind && e.AsLiteral() == types.False {
		c.findings.at(s, subject, "the condition is never true; disable or delete what it guards")
	}
}
