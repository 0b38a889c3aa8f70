package compile

import (
	"fmt"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// textKey is a key of a map of texts, such as the labels of a pod. Without a key it is a fact of which nothing may be known.
type textKey struct{ of, key string }

func (k textKey) String() string { return fmt.Sprintf("%s['%s']", k.of, k.key) }

// textKeys are the keys that an expression reads, and those that it asks for: 'k' in m, has(m.k), m[?'k'].
func (c *compiler) textKeys(ast *celast.AST) (read map[textKey]celast.Expr, asked []textKey) {
	read = map[textKey]celast.Expr{}
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		var of celast.Expr
		key, isRead := "", false
		if operand, field, ok := closure.SelectedFields(e); ok {
			of, key, isRead = operand, field, e.Kind() == celast.SelectKind && !e.AsSelect().IsTestOnly()
		} else if e.Kind() == celast.CallKind && len(e.AsCall().Args()) == 2 {
			args := e.AsCall().Args()
			switch e.AsCall().FunctionName() {
			case operators.Index:
				of, isRead = args[0], true
				key, ok = closure.LiteralText(args[1])
			case operators.In:
				of = args[1]
				key, ok = closure.LiteralText(args[0])
			}
			if !ok {
				return
			}
		}
		if of == nil {
			return
		}
		path := pathOf(of)
		if !isTexts(ast, of) {
			fact, _, _ := strings.Cut(path, ".")
			if !c.optional(fact) || isTexts(ast, e) { // those that are not known are empty
				return
			}
			path, key = fact, ""
		}
		if k := (textKey{path, key}); path != "" && isRead {
			read[k] = e
		} else if path != "" {
			asked = append(asked, k)
		}
	}))
	return read, asked
}

func isTexts(ast *celast.AST, e celast.Expr) bool {
	return ast.GetType(e.ID()).IsExactType(lang.Texts.CELType())
}

// optional reports whether nothing may be known of a fact.
func (c *compiler) optional(fact string) bool {
	return slices.ContainsFunc(c.at.Vars, func(v registry.Var) bool { return v.Name == fact && v.Optional })
}

// pathOf is a.b.c as it is written; empty for anything else.
func pathOf(e celast.Expr) string {
	switch e.Kind() {
	case celast.IdentKind:
		return closure.IdentName(e)
	case celast.SelectKind:
		if of := pathOf(e.AsSelect().Operand()); of != "" {
			return of + "." + e.AsSelect().FieldName()
		}
	}
	return ""
}

// missingKeys reports the keys that a condition reads and nothing asks for: neither the condition, nor a variable that it reads, nor
// the condition of its stage.
func (c *compiler) missingKeys(x *checkedExpression, reads []string, subject string) {
	read, asked := c.textKeys(x.NativeRep())
	known := slices.Concat(asked, c.stageAsks, c.asksOf(reads))
	then := "the rule is skipped"
	if c.at.Kind == registry.DecisionPoint {
		then = "the outcome is " + c.at.FailSafe
	}
	for k, e := range read {
		switch {
		case slices.Contains(known, k):
		case k.key == "":
			x.problem(c.findings, e, subject, fmt.Sprintf("%s fails where nothing is known of %s, and %s; write has(%[1]s) && …", pathOf(e), k.of, then))
		default:
			x.problem(c.findings, e, subject, fmt.Sprintf("%s fails where there is no such key, and %s; write %s[?'%s'].orValue('') or '%[4]s' in %[3]s && …", k, then, k.of, k.key))
		}
	}
}

// asks are the keys that an expression and the variables that it reads ask for.
func (c *compiler) asks(p *closure.Program) (asked []textKey) {
	if p != nil {
		_, asked = c.textKeys(p.Ast)
		asked = append(asked, c.asksOf(p.Reads)...)
	}
	return asked
}

// asksOf are the keys that variables ask for.
func (c *compiler) asksOf(variables []string) (asked []textKey) {
	for _, name := range variables {
		asked = append(asked, c.variableAsks[name]...)
	}
	return asked
}
