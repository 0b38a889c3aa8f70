package closure

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// Expressions over a host's objects are checked in the host's environment. Their code may fail
// where CEL does not, but never the other way round: whoever runs it asks CEL after a failure.

var (
	errNoEntry = errors.New("no such key")
	errForeign = errors.New("the call failed")
)

// foreign compiles a call of a function that only the host's environment has. It calls what CEL
// calls.
func (t *tree) foreign(e celast.Expr, args []celast.Expr, nodes []node) (n node, ok bool) {
	result := t.ast.GetType(e.ID())
	as := t.formOf(result)
	call := t.implementation(e, args)
	if call == nil || as == noForm {
		return node{}, false
	}
	inputs := make([]BoxedCode, len(nodes))
	for i, n := range nodes {
		inputs[i] = Boxed(n)
	}
	n = as.unbox(called(call, inputs))
	if isScalar(result) && !slices.ContainsFunc(nodes, func(n node) bool { return !n.Known }) {
		return refold(n), true
	}
	return n, true // other values may not be shared between runs: comparing quantities changes them
}

// called runs a function of the host's environment. It fails with any failure of that.
func called(o *functions.Overload, inputs []BoxedCode) BoxedCode {
	checked := func(f *Frame, first ref.Val, call func() ref.Val) ref.Val {
		if f.Err == nil && o.OperandTrait != 0 && !first.Type().HasTrait(o.OperandTrait) {
			f.fail(errNoOverload)
		}
		v := calling(f, func() (ref.Val, error) { return call(), nil })
		if f.Err == nil && (v == nil || types.IsUnknownOrError(v) || !f.spend(1)) {
			f.fail(errForeign)
		}
		return v
	}
	switch {
	case len(inputs) == 1 && o.Unary != nil:
		return func(f *Frame) ref.Val {
			a := inputs[0](f)
			return checked(f, a, func() ref.Val { return o.Unary(a) })
		}
	case len(inputs) == 2 && o.Binary != nil:
		return func(f *Frame) ref.Val {
			a, b := inputs[0](f), inputs[1](f)
			return checked(f, a, func() ref.Val { return o.Binary(a, b) })
		}
	}
	return func(f *Frame) ref.Val {
		values := make([]ref.Val, len(inputs))
		for i, input := range inputs {
			values[i] = input(f)
		}
		return checked(f, values[0], func() ref.Val { return o.Function(values...) })
	}
}

// implementation finds what CEL runs for a call; nil = nothing that code can call.
func (t *tree) implementation(e celast.Expr, args []celast.Expr) *functions.Overload {
	name := e.AsCall().FunctionName()
	takes := t.isPlain
	if strings.ContainsAny(name, "_@") { // an operator
		takes = func(of *types.Type) bool {
			return of.Kind() != types.ListKind && of.Kind() != types.DynKind && t.isPlain(of)
		}
	}
	if slices.ContainsFunc(args, func(arg celast.Expr) bool { return !takes(t.ast.GetType(arg.ID())) }) {
		return nil
	}
	bindings, err := t.Foreign[name].Bindings()
	if err != nil {
		return nil
	}
	find := func(id string) int {
		return slices.IndexFunc(bindings, func(o *functions.Overload) bool { return o.Operator == id })
	}
	i := find(name) // chooses by the arguments
	if ids := t.ast.GetOverloadIDs(e.ID()); len(ids) == 1 && find(ids[0]) >= 0 {
		i = find(ids[0])
	}
	if i < 0 || bindings[i].NonStrict || len(args) == 0 {
		return nil
	}
	o := bindings[i]
	if o.Function == nil && !(len(args) == 1 && o.Unary != nil) && !(len(args) == 2 && o.Binary != nil) {
		return nil
	}
	return o
}

// foreignTo reports whether a host may compare or join these values in a way of its own, as API
// servers do with sets.
func (t *tree) foreignTo(overload string, args []celast.Expr) bool {
	of := func(e celast.Expr) *types.Type { return t.ast.GetType(e.ID()) }
	switch {
	case t.Foreign == nil:
		return false
	case overload == overloads.Equals || overload == overloads.NotEquals:
		return !isScalar(of(args[0])) || !isScalar(of(args[1]))
	case overload == overloads.InList:
		return !isScalar(of(args[0])) || !of(args[1]).IsExactType(types.NewListType(of(args[0])))
	}
	return overload == overloads.AddList
}

func isScalar(t *types.Type) bool {
	return slices.Contains([]types.Kind{types.BoolKind, types.IntKind, types.DoubleKind, types.StringKind}, t.Kind())
}

// isPlain reports whether values of a type are the same in code and in CEL: a part of an object, a
// record in code, is not.
func (t *tree) isPlain(of *types.Type) bool {
	switch of.Kind() {
	case types.ListKind:
		return t.isPlain(of.Parameters()[0])
	case types.StructKind:
		return t.Vars.Schemas[of.TypeName()] == nil
	}
	return of.Kind() != types.MapKind && !lang.IsOptional(of)
}

// textOfAny compiles string(x) where the type of x is only known at run time.
func textOfAny(args []node) (node, bool) {
	value := Boxed(args[0])
	return textForm.unbox(func(f *Frame) ref.Val {
		v := value(f)
		if _, is := v.(types.String); is || f.Err != nil {
			return v
		}
		return v.ConvertToType(types.StringType)
	}), true
}

// matching compiles matches with a constant pattern.
func matching(args []node) (node, bool) {
	text, isText := Typed[string](args[0])
	pattern, isKnown := args[1].value.(string)
	if !isText || !isKnown {
		return node{}, false
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return node{}, false
	}
	return fold(Code[bool](func(f *Frame) bool { return expression.MatchString(text(f)) }), args...), true
}

// foreignForm is the form of values of types that only a host's environment has.
func foreignForm(t *types.Type) form {
	switch t.Kind() {
	case types.DynKind:
		return anyForm
	case types.StructKind, types.MapKind, types.DurationKind, types.TimestampKind:
		return boxedForm
	}
	return noForm
}
