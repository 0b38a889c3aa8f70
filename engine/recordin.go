package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// CEL asks records so for fields that it learns of while it runs: 'field' in record, and all that stands behind .?
var (
	_ traits.Container   = &Record{}
	_ traits.FieldTester = &Record{}
	_ traits.Indexer     = &Record{}
)

// Contains implements traits.Container: it reports whether a field is set.
func (r *Record) Contains(field ref.Val) ref.Val { return r.IsSet(field) }

// IsSet implements traits.FieldTester.
func (r *Record) IsSet(field ref.Val) ref.Val {
	i, err := r.find(field)
	if err != nil {
		return err
	}
	return types.Bool(r.cells[i].kind != unsetCell)
}

// Get implements traits.Indexer. It reads a field as a rule does: see Record.
func (r *Record) Get(field ref.Val) ref.Val {
	i, err := r.find(field)
	if err != nil {
		return err
	}
	v, failed := r.read(i)
	if failed != nil {
		return types.WrapErr(failed)
	}
	return v
}

// read gives what a rule reads in the i-th field.
func (r *Record) read(i int) (ref.Val, error) {
	f := &r.schema.fields[i]
	switch v := r.get(i); {
	case v != nil:
		return v, nil
	case f.Type.isRecord():
		return f.Type.schema.empty, nil
	}
	return nil, unset(f.Name)
}

func (r *Record) find(field ref.Val) (i int, err *types.Err) {
	name, _ := field.(types.String)
	i, ok := r.schema.index[string(name)]
	if !ok {
		return 0, types.NewErr("no such field '%v'; %s has %s", field, r.schema.name, strings.Join(r.schema.fieldNames(), ", ")).(*types.Err)
	}
	return i, nil
}

const inRecordPrefix = "in_record/"

// inRecords lets 'field' in record mean has(record.field).
func inRecords(schemas map[string]*Schema) cel.EnvOption {
	var overloads []cel.FunctionOpt
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		overloads = append(overloads, cel.Overload(inRecordPrefix+name, []*cel.Type{cel.StringType, schemas[name].cel}, cel.BoolType))
	}
	return cel.Function(operators.In, overloads...)
}

func isInRecord(overload string) bool { return strings.HasPrefix(overload, inRecordPrefix) }

// fieldInRecord takes an expression as 'field' in record.
func fieldInRecord(ast *celast.AST, e celast.Expr) (field, record celast.Expr, ok bool) {
	overloads := ast.GetOverloadIDs(e.ID())
	if e.Kind() != celast.CallKind || len(overloads) != 1 || !isInRecord(overloads[0]) {
		return nil, nil, false
	}
	args := e.AsCall().Args()
	return args[0], args[1], true
}

// recordFields reports what is looked for in records and is no field of theirs, and has() of optional values: of those, CEL's
// evaluator gives an optional where one of them is a branch of a ternary.
func (c *compiler) recordFields(s Scalar, env *cel.Env, checked *cel.Ast, subject string) bool {
	fine := true
	ast := checked.NativeRep()
	problem := func(e celast.Expr, message string) {
		fine = false
		loc := ast.SourceInfo().GetStartLocation(e.ID())
		pos := s.At(loc.Line(), loc.Column())
		c.ps.add(&Problem{Pos: pos, Subject: subject, Message: message, Excerpt: excerpt(s.lines, pos)})
	}
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if field, record, ok := fieldInRecord(ast, e); ok {
			if message := misnamed(field, ast.GetType(record.ID()).TypeName(), env); message != "" {
				problem(field, message)
			}
		}
		if e.Kind() == celast.SelectKind && e.AsSelect().IsTestOnly() && isOptional(ast.GetType(e.AsSelect().Operand().ID())) {
			problem(e, "has() does not look behind .?; write ….?"+e.AsSelect().FieldName()+".hasValue()")
		}
	}))
	return fine
}

// misnamed says why a text is no field of a schema; empty when it is one.
func misnamed(field celast.Expr, schema string, env *cel.Env) string {
	name, isText := literalText(field)
	_, known := env.CELTypeProvider().FindStructFieldType(schema, name)
	if isText && known {
		return ""
	}
	names, _ := env.CELTypeProvider().FindStructFieldNames(schema)
	has := "; it has " + strings.Join(names, ", ")
	if !isText {
		return "what is looked for in " + schema + " must be the name of a field, written out" + has
	}
	return fmt.Sprintf("%s has no field %q", schema, name) + has
}
