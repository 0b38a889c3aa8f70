package compile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// ProfileVersion names the CEL environment of stages and decisions. It is frozen: a function that
// changes meaning needs a new profile.
const ProfileVersion = "celvpa/v1"

// baseEnv is CEL without regular expressions and time zones, plus optionals, the engine's helpers,
// and the host's units, types and functions.
func baseEnv(r *registry.Registry) (*cel.Env, error) {
	std := env.NewLibrarySubset().AddExcludedFunctions(
		env.NewFunction(operators.Add), // replaced by closure.Addition
		env.NewFunction("matches"),
		env.NewFunction("duration"), env.NewFunction("timestamp"), // free for units
		env.NewFunction("getFullYear"), env.NewFunction("getMonth"), env.NewFunction("getDayOfYear"),
		env.NewFunction("getDayOfMonth"), env.NewFunction("getDate"), env.NewFunction("getDayOfWeek"),
		env.NewFunction("getHours"), env.NewFunction("getMinutes"), env.NewFunction("getSeconds"),
		env.NewFunction("getMilliseconds"),
	)
	base, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := append(closure.Optionals(),
		cel.StdLib(cel.StdLibSubset(std)),
		closure.OptionalMacros(),
		closure.Addition(),
		cel.CustomTypeAdapter(base),
		cel.CustomTypeProvider(&lang.TypeProvider{Provider: base, Schemas: r.Schemas()}),
		inRecords(r.Schemas()),
		inRecords(gateSchema(r).WithNested()),
	)
	for _, f := range r.FunctionsByName() {
		options = append(options, f.Declaration())
	}
	return cel.NewCustomEnv(options...)
}

// gateSchema is the type of the variable `gates`: one boolean per declared gate.
func gateSchema(r *registry.Registry) *lang.Schema {
	var fields []lang.Field
	for _, name := range slices.Sorted(maps.Keys(r.Gates())) {
		fields = append(fields, lang.Field{Name: name, Type: lang.Bool, Doc: r.Gates()[name]})
	}
	return lang.NewSchema("gates", fields...)
}

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
