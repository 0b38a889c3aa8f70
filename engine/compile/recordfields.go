package compile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
)

// CEL uses these for fields that it resolves at run time: 'field' in record, and all behind .?
var (
	_ traits.Container   = &lang.Record{}
	_ traits.FieldTester = &lang.Record{}
	_ traits.Indexer     = &lang.Record{}
)

// inRecords lets 'field' in record mean has(record.field).
func inRecords(schemas map[string]*lang.Schema) cel.EnvOption {
	var overloads []cel.FunctionOpt
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		overloads = append(overloads, cel.Overload(closure.InRecordPrefix+name, []*cel.Type{cel.StringType, schemas[name].CELType()}, cel.BoolType))
	}
	return cel.Function(operators.In, overloads...)
}

// recordFields reports unknown fields in 'field' in record, and has() of optionals, which CEL
// evaluates to an optional in a branch of a ternary.
func (c *compiler) recordFields(x *checkedExpression, env *cel.Env, subject string) bool {
	before, ast := len(c.ps.List), x.NativeRep()
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if field, record, ok := closure.FieldInRecord(ast, e); ok {
			if message := misnamed(field, ast.GetType(record.ID()).TypeName(), env); message != "" {
				x.problem(c.ps, field, subject, message)
			}
		}
		if e.Kind() == celast.SelectKind && e.AsSelect().IsTestOnly() && lang.IsOptional(ast.GetType(e.AsSelect().Operand().ID())) {
			x.problem(c.ps, e, subject, "has() does not look behind .?; write ….?"+e.AsSelect().FieldName()+".hasValue()")
		}
	}))
	return len(c.ps.List) == before
}

// misnamed says why an expression names no field of a schema; empty when it does.
func misnamed(field celast.Expr, schema string, env *cel.Env) string {
	name, isText := closure.LiteralText(field)
	_, known := env.CELTypeProvider().FindStructFieldType(schema, name)
	if isText && known {
		return ""
	}
	names, _ := env.CELTypeProvider().FindStructFieldNames(schema)
	has := "; " + faults.Has(name, names)
	if !isText {
		return "what is looked for in " + schema + " must be the name of a field, written out" + has
	}
	return fmt.Sprintf("%s has no field %q", schema, name) + has
}
