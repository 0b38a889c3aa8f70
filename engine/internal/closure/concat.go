package closure

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celvpa/celvpa/engine/lang"
)

// Addition declares + with size limits, which CEL's own lacks: repeated + would exhaust memory.
func Addition() cel.EnvOption {
	list := cel.ListType(cel.TypeParamType("A"))
	same := func(id string, t *cel.Type) cel.FunctionOpt { return cel.Overload(id, []*cel.Type{t, t}, t) }
	return cel.Function(operators.Add,
		cel.FunctionDocs("adds two numbers, or puts one text or list behind another"),
		same(overloads.AddInt64, cel.IntType), same(overloads.AddUint64, cel.UintType), same(overloads.AddDouble, cel.DoubleType),
		same(overloads.AddString, cel.StringType), same(overloads.AddBytes, cel.BytesType), same(overloads.AddList, list),
		cel.SingletonBinaryBinding(add, traits.AdderType))
}

// add implements + for CEL's evaluator.
func add(a, b ref.Val) ref.Val {
	switch x := a.(type) {
	case types.String:
		if y, ok := b.(types.String); ok && len(x)+len(y) > lang.MaxText {
			return types.WrapErr(ErrTextTooLong)
		}
	case types.Bytes:
		if y, ok := b.(types.Bytes); ok && len(x)+len(y) > lang.MaxText {
			return types.WrapErr(ErrTextTooLong)
		}
	case traits.MutableLister: // a comprehension's accumulator, never longer than its range
	case traits.Lister:
		out, err := joinedLists(a, b)
		if err != nil {
			return types.WrapErr(err)
		}
		return out
	}
	adder, ok := a.(traits.Adder)
	if !ok {
		return types.MaybeNoSuchOverloadErr(a)
	}
	return adder.Add(b)
}

func addTexts(a, b Code[string]) Code[string] {
	return func(f *Frame) string {
		x, y := a(f), b(f)
		if f.Err != nil {
			return ""
		}
		size := len(x) + len(y)
		if size > lang.MaxText {
			f.fail(ErrTextTooLong)
			return ""
		}
		if !f.build(size) {
			return ""
		}
		return x + y
	}
}

func addLists(args []node) (node, bool) {
	a, okA := args[0].Run.(BoxedCode)
	b, okB := args[1].Run.(BoxedCode)
	if !okA || !okB {
		return node{}, false
	}
	return fold(func(f *Frame) ref.Val {
		x, y := a(f), b(f)
		if f.Err != nil {
			return nil
		}
		list, err := joinedLists(x, y)
		if err != nil {
			f.fail(err)
			return nil
		}
		size, _ := list.(traits.Sizer).Size().(types.Int)
		if !f.build(lang.ListBytes + lang.ValueBytes*int(size)) {
			return nil
		}
		return list
	}, args...), true
}

func joinedLists(a, b ref.Val) (ref.Val, error) {
	x, okX := lang.Values(a)
	y, okY := lang.Values(b)
	if !okX || !okY {
		return nil, errNoOverload
	}
	list := lang.NewList(slices.Concat(x, y))
	if list.Weight > lang.MaxList {
		return nil, ErrListTooLarge
	}
	return list, nil
}
