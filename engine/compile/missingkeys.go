package compile

import (
	"fmt"
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// textKey is a key of a map of texts, such as the labels of a pod.
type textKey struct{ of, key string }

func (k textKey) String() string { return fmt.Sprintf("%s['%s']", k.of, k.key) }

// textKeys are the keys that an expression reads, and those that it asks for: 'k' in m, has(m.k), m[?'k'].
func textKeys(ast *celast.AST) (read map[textKey]celast.Expr, asked []textKey) {
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
		if of == nil || !ast.GetType(of.ID()).IsExactType(lang.Texts.CELType()) {
			return
		}
		path := pathOf(of)
		if k := (textKey{path, key}); path != "" && isRead {
			read[k] = e
		} else if path != "" {
			asked = append(asked, k)
		}
	}))
	return read, asked
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
	read, asked := textKeys(x.NativeRep())
	known := slices.Concat(asked, c.stageAsks, c.asksOf(reads))
	then := "the rule is skipped"
	if c.at.Kind == registry.DecisionPoint {
		then = "the outcome is " + c.at.FailSafe
	}
	for k, e := range read {
		if !slices.Contains(known, k) {
			x.problem(c.findings, e, subject, fmt.Sprintf("%s fails where there is no such key, and %s; write %s[?'%s'].orValue('') or '%[4]s' in %[3]s && …", k, then, k.of, k.key))
		}
	}
}

// asks are the keys that an expression and the variables that it reads ask for.
func (c *compiler) asks(p *closure.Program) (asked []textKey) {
	if p != nil {
		_, asked = textKeys(p.Ast)
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
