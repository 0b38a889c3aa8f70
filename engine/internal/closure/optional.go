package closure

import (
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Overload IDs of CEL's optional values, which cel-go does not export.
const (
	optionalSelect   = "select_optional_field"
	optionalIndex    = "list_optindex_optional_int"
	mapIndex         = "map_optindex_optional_value"
	optionalMapIndex = "optional_map_optindex_optional_value"
	OptionalValue    = "optional_value"
	OptionalHasValue = "optional_hasValue"
	OptionalOr       = "optional_or_optional"
	OptionalOrValue  = "optional_orValue_value"
)

// Optionals enables CEL's optional values without their macros; see refused. Options that declare
// macros must come later.
func Optionals() []cel.EnvOption {
	return []cel.EnvOption{cel.OptionalTypes(cel.OptionalTypesVersion(0)), cel.ClearMacros()}
}

// OptionalMacros rewrite [?'field'] to .?field, because records have no keys, and reject the rest.
func OptionalMacros() cel.EnvOption {
	byKey := cel.GlobalMacro(operators.OptIndex, 2, func(h cel.MacroExprFactory, _ celast.Expr, args []celast.Expr) (celast.Expr, *cel.Error) {
		if _, ok := LiteralText(args[1]); ok {
			return h.NewCall(operators.OptSelect, args...), nil
		}
		return nil, nil // unchanged
	})
	// optMap and optFlatMap duplicate their operand: a chain of n calls would have 2^n parts.
	const instead = "; write x.hasValue() ? … x.value() … : …, with a variable for x"
	const source = "; optional values come of .?field and of [?index]"
	return cel.Macros(byKey, refused("optMap", 2, instead), refused("optFlatMap", 2, instead),
		refused("of", 1, source), refused("ofNonZeroValue", 1, source), refused("none", 0, source))
}

// refused rejects a method that CEL has and rules do not.
func refused(name string, args int, why string) cel.Macro {
	return cel.ReceiverMacro(name, args, func(h cel.MacroExprFactory, target celast.Expr, _ []celast.Expr) (celast.Expr, *cel.Error) {
		if target.Kind() == celast.IdentKind && IdentName(target) == "optional" {
			return nil, h.NewError(target.ID(), "there is no optional."+name+why)
		}
		return nil, h.NewError(target.ID(), "there is no "+name+why)
	})
}

// LiteralText matches a string literal.
func LiteralText(e celast.Expr) (text string, ok bool) {
	if e.Kind() != celast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// OptionalField matches an expression of the form operand.?field.
func OptionalField(e celast.Expr) (operand celast.Expr, field string, ok bool) {
	if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != operators.OptSelect || len(e.AsCall().Args()) != 2 {
		return nil, "", false
	}
	args := e.AsCall().Args()
	field, ok = LiteralText(args[1])
	return args[0], field, ok
}

// SelectedFields matches an expression of the form operand.field or operand.?field.
func SelectedFields(e celast.Expr) (operand celast.Expr, field string, ok bool) {
	if e.Kind() == celast.SelectKind {
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	}
	return OptionalField(e)
}
