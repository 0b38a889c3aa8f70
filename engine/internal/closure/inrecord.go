package closure

import (
	"strings"

	celast "github.com/google/cel-go/common/ast"
)

// InRecordPrefix begins the overload IDs of 'field' in record.
const InRecordPrefix = "in_record/"

func isInRecord(overload string) bool { return strings.HasPrefix(overload, InRecordPrefix) }

// FieldInRecord matches an expression of the form 'field' in record.
func FieldInRecord(ast *celast.AST, e celast.Expr) (field, record celast.Expr, ok bool) {
	overloads := ast.GetOverloadIDs(e.ID())
	if e.Kind() != celast.CallKind || len(overloads) != 1 || !isInRecord(overloads[0]) {
		return nil, nil, false
	}
	args := e.AsCall().Args()
	return args[0], args[1], true
}
