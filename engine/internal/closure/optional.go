package closure

import (
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Overloads of CEL's optional values, which it does not export.
const (
	optionalSelect   = "select_optional_field"
	optionalIndex    = "list_optindex_optional_int"
	OptionalValue    = "optional_value"
	OptionalHasValue = "optional_hasValue"
	OptionalOr       = "optional_or_optional"
	OptionalOrValue  = "optional_orValue_value"
)

// Optionals are CEL's optional values, as fields and entries give them: .?field, [?index], hasValue, value, or and orValue.
// CEL's macros for them are left out; see refused. What declares macros must come later.
func Optionals() []cel.EnvOption {
	return []cel.EnvOption{cel.OptionalTypes(cel.OptionalTypesVersion(0)), cel.ClearMacros()}
}

// OptionalMacros read [?'field'] as .?field, for records have no keys, and refuse what is left out.
func OptionalMacros() cel.EnvOption {
	byKey := cel.GlobalMacro(operators.OptIndex, 2, func(h cel.MacroExprFactory, _ celast.Expr, args []celast.Expr) (celast.Expr, *cel.Error) {
		if _, ok := LiteralText(args[1]); ok {
			return h.NewCall(operators.OptSelect, args...), nil
		}
		return nil, nil // it stays as it is
	})
	// optMap and optFlatMap copy what they are called on: a chain of n of them would have 2^n parts.
	const instead = "; write x.hasValue() ? … x.value() … : …, with a variable for x"
	const source = "; optional values come of .?field and of [?index]"
	return cel.Macros(byKey, refused("optMap", 2, instead), refused("optFlatMap", 2, instead),
		refused("of", 1, source), refused("ofNonZeroValue", 1, source), refused("none", 0, source))
}

// refused is a method that CEL would have and rules do not.
func refused(name string, args int, why string) cel.Macro {
	return cel.ReceiverMacro(name, args, func(h cel.MacroExprFactory, target celast.Expr, _ []celast.Expr) (celast.Expr, *cel.Error) {
		if target.Kind() == celast.IdentKind && IdentName(target) == "optional" {
			return nil, h.NewError(target.ID(), "there is no optional."+name+why)
		}
		return nil, h.NewError(target.ID(), "there is no "+name+why)
	})
}

// LiteralText reads a text that is written out.
func LiteralText(e celast.Expr) (text string, ok bool) {
	if e.Kind() != celast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// OptionalField reads an expression as operand.?field.
func OptionalField(e celast.Expr) (operand celast.Expr, field string, ok bool) {
	if e.Kind() != celast.CallKind || e.AsCall().FunctionName() != operators.OptSelect || len(e.AsCall().Args()) != 2 {
		return nil, "", false
	}
	args := e.AsCall().Args()
	field, ok = LiteralText(args[1])
	return args[0], field, ok
}

// SelectedFields reads an expression as operand.field or operand.?field.
func SelectedFields(e celast.Expr) (operand celast.Expr, field string, ok bool) {
	if e.Kind() == celast.SelectKind {
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	}
	return OptionalField(e)
}
