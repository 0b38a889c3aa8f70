package inline

import (
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"github.com/celvpa/celvpa/engine/internal/closure"
)

// Tree is a parsed expression that is edited in place.
type Tree struct {
	*celast.AST
	Make      celast.ExprFactory
	Rewritten bool // it is no longer what its text says

	last int64 // highest node ID so far
}

// NewTree returns an expression to edit.
func NewTree(ast *celast.AST) *Tree {
	return &Tree{AST: ast, Make: celast.NewExprFactory(), last: celast.MaxID(ast)}
}

// Copy returns a copy with fresh IDs at the same positions.
func (t *Tree) Copy(e celast.Expr) celast.Expr {
	out := t.Make.CopyExpr(e)
	out.RenumberIDs(t.Number)
	return out
}

// Number returns a fresh ID at the position of another node.
func (t *Tree) Number(like int64) int64 {
	t.last++
	if at, found := t.SourceInfo().GetOffsetRange(like); found {
		t.SourceInfo().SetOffsetRange(t.last, at)
	}
	return t.last
}

// Text writes the expression in CEL. It fails for comprehensions that are none of the usual macros. If the
// expression is type-checked, entries of maps are written as such, which API servers know the sizes of.
func (t *Tree) Text() (string, error) {
	root := t.Make.CopyExpr(t.Expr())
	info := celast.NewSourceInfo(nil) // CEL's own notes of macros are those of the expression as it was
	celast.PostOrderVisit(root, celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.SelectKind:
			field := e.AsSelect()
			if !field.IsTestOnly() && t.GetType(field.Operand().ID()).Kind() == types.MapKind {
				e.SetKindCase(t.Make.NewCall(0, operators.Index, field.Operand(), t.Make.NewLiteral(0, types.String(field.FieldName()))))
			}
		case celast.ComprehensionKind:
			loop := e.AsComprehension()
			macro, when, value := closure.WrittenAs(loop)
			args := []celast.Expr{t.Make.NewIdent(0, loop.IterVar())}
			for _, arg := range []celast.Expr{when, value} {
				if arg != nil {
					args = append(args, arg)
				}
			}
			if name := macro.String(); name != "" {
				info.SetMacroCall(e.ID(), t.Make.NewMemberCall(0, name, loop.IterRange(), args...))
			}
		}
	}))
	return parser.Unparse(root, info)
}
