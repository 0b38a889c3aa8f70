package engine

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// addition declares +, which CEL has without bounds: texts and lists that are put together over and over fill the memory.
func addition() cel.EnvOption {
	list := cel.ListType(cel.TypeParamType("A"))
	same := func(id string, t *cel.Type) cel.FunctionOpt { return cel.Overload(id, []*cel.Type{t, t}, t) }
	return cel.Function(operators.Add,
		cel.FunctionDocs("adds two numbers, or puts one text or list behind another"),
		same(overloads.AddInt64, cel.IntType), same(overloads.AddUint64, cel.UintType), same(overloads.AddDouble, cel.DoubleType),
		same(overloads.AddString, cel.StringType), same(overloads.AddBytes, cel.BytesType), same(overloads.AddList, list),
		cel.SingletonBinaryBinding(add, traits.AdderType))
}

// add is + as CEL's evaluator calls it.
func add(a, b ref.Val) ref.Val {
	switch x := a.(type) {
	case types.String:
		if y, ok := b.(types.String); ok && len(x)+len(y) > maxText {
			return types.WrapErr(errTextTooLong)
		}
	case types.Bytes:
		if y, ok := b.(types.Bytes); ok && len(x)+len(y) > maxText {
			return types.WrapErr(errTextTooLong)
		}
	case traits.MutableLister: // of a comprehension, which is no longer than what it goes through
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

// addTexts is + of texts.
func addTexts(a, b code[string]) code[string] {
	return func(f *frame) string {
		x, y := a(f), b(f)
		if f.err != nil {
			return ""
		}
		size := len(x) + len(y)
		if size > maxText {
			f.fail(errTextTooLong)
			return ""
		}
		if !f.build(size) {
			return ""
		}
		return x + y
	}
}

// addLists is + of lists.
func addLists(args []node) (node, bool) {
	a, okA := args[0].run.(boxedCode)
	b, okB := args[1].run.(boxedCode)
	if !okA || !okB {
		return node{}, false
	}
	return fold(func(f *frame) ref.Val {
		x, y := a(f), b(f)
		if f.err != nil {
			return nil
		}
		list, err := joinedLists(x, y)
		if err != nil {
			f.fail(err)
			return nil
		}
		size, _ := list.(traits.Sizer).Size().(types.Int)
		if !f.build(listBytes + valueBytes*int(size)) {
			return nil
		}
		return list
	}, args...), true
}

// joinedLists puts one list behind another.
func joinedLists(a, b ref.Val) (ref.Val, error) {
	if ints, ok := a.(*listOf[int64]); ok {
		if more, ok := b.(*listOf[int64]); ok {
			return within(newList(slices.Concat(ints.values, more.values)))
		}
	}
	if list, ok := a.(*listOf[string]); ok {
		if more, ok := b.(*listOf[string]); ok {
			return within(newList(slices.Concat(list.values, more.values)))
		}
	}
	x, okX := values(a)
	y, okY := values(b)
	if !okX || !okY {
		return nil, errNoOverload
	}
	return within(newList(slices.Concat(x, y)))
}

// within refuses a list that is too large.
func within(list ref.Val) (ref.Val, error) {
	if weigh(list, maxList) > maxList {
		return nil, errListTooLarge
	}
	return list, nil
}
