package closure

import (
	"errors"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celvpa/celvpa/engine/lang"
)

// choice is one source of an optional value; exactly one field is set. An optional node has several
// choices where `or` joins them, and the first with a value wins. Reading a place directly avoids
// allocating an optional.
type choice struct {
	place *place
	known ref.Val
	boxed BoxedCode
}

var errNoValue = errors.New("optional.none() dereference")

// choicesOf returns the choices of an optional node; ok is false for any other node.
func choicesOf(n node) (list []choice, ok bool) {
	if n.Known {
		v, ok := n.value.(*types.Optional)
		if !ok || !v.HasValue() {
			return nil, ok
		}
		return []choice{{known: v.GetValue()}}, true
	}
	if n.choices != nil {
		return n.choices, true
	}
	boxed, ok := n.Run.(BoxedCode)
	return []choice{{boxed: boxed}}, ok
}

func chosen(list []choice) node {
	switch {
	case len(list) == 0:
		return constant[ref.Val](types.OptionalNone)
	case list[0].known != nil:
		return constant[ref.Val](types.OptionalOf(list[0].known))
	}
	return node{choices: list, Run: BoxedCode(func(f *Frame) ref.Val {
		for i := range list {
			v := list[i].optional(f)
			if f.Err != nil {
				return nil
			}
			if v.HasValue() {
				return v
			}
		}
		return types.OptionalNone
	})}
}

// perhaps returns an optional node for a place in the result of another node.
func perhaps(at *place, of node) node {
	n := chosen([]choice{{place: at}})
	if of.Known {
		return refold(n)
	}
	return n
}

// holder returns the place of the record in an optional value; empty if it has none.
func holder(n node, empty *lang.Record) (at *place, ok bool) {
	list, ok := choicesOf(n)
	if ok && len(list) == 1 && list[0].place != nil {
		return list[0].place, true
	}
	return &place{base: firstOf(list, func(*Frame) *lang.Record { return empty }, asRecord)}, ok
}

// optional returns nil on failure.
func (c *choice) optional(f *Frame) *types.Optional {
	switch {
	case c.known != nil:
		return types.OptionalOf(c.known)
	case c.place != nil:
		at := c.place.find(f)
		switch {
		case at == nil:
			return nil
		case at.Kind == lang.UnsetCell:
			return types.OptionalNone
		}
		return types.OptionalOf(at.Val())
	}
	boxed := c.boxed(f)
	if f.Err != nil {
		return nil
	}
	v, ok := boxed.(*types.Optional)
	if !ok {
		f.fail(errNoOverload)
	}
	return v
}

func (c *choice) has() Code[bool] {
	switch {
	case c.known != nil:
		return func(*Frame) bool { return true }
	case c.place != nil:
		return c.place.has()
	}
	return func(f *Frame) bool {
		v := c.optional(f)
		return v != nil && v.HasValue()
	}
}

// lasting reports whether all choices are places of facts, which are as fast to read as a memo.
func lasting(list []choice) bool {
	return !slices.ContainsFunc(list, func(c choice) bool { return c.place == nil || c.place.base != nil })
}

func orOptional(args []node) (node, bool) {
	a, okA := choicesOf(args[0])
	b, okB := choicesOf(args[1])
	if !okA || !okB {
		return node{}, false
	}
	list := slices.Concat(a, b)
	if i := slices.IndexFunc(list, func(c choice) bool { return c.known != nil }); i >= 0 {
		list = list[:i+1]
	}
	return chosen(list), true
}

func hasValue(args []node) (node, bool) {
	list, ok := choicesOf(args[0])
	switch {
	case !ok:
		return node{}, false
	case len(list) == 0:
		return constant(false), true
	case list[0].known != nil:
		return constant(true), true
	case len(list) == 1:
		return dynamic(list[0].has()), true
	}
	var all []Code[bool]
	for i := range list {
		all = append(all, list[i].has())
	}
	return dynamic(func(f *Frame) bool {
		for _, has := range all {
			if has(f) {
				return true
			}
			if f.Err != nil {
				return false
			}
		}
		return false
	}), true
}

// valueOr returns code for the optional's value, or the code of otherwise if it has none.
func valueOr(of, otherwise node) (n node, ok bool) {
	list, ok := choicesOf(of)
	switch {
	case !ok:
		return node{}, false
	case len(list) == 0:
		return otherwise, true
	case list[0].known != nil:
		return known(list[0].known)
	}
	switch d := otherwise.Run.(type) {
	case Code[int64]:
		return dynamic(firstOf(list, d, asInt)), true
	case Code[float64]:
		return dynamic(firstOf(list, d, asDouble)), true
	case Code[bool]:
		return dynamic(firstOf(list, d, asBool)), true
	case Code[string]:
		return dynamic(firstOf(list, d, asText)), true
	case Code[*lang.Record]:
		return dynamic(firstOf(list, d, asRecord)), true
	case BoxedCode:
		return dynamic(firstOf(list, d, asAny)), true
	}
	return node{}, false
}

func firstOf[T any](list []choice, otherwise Code[T], as func(*lang.Cell) (T, bool)) Code[T] {
	for _, c := range slices.Backward(list) {
		switch {
		case c.place != nil:
			otherwise = readingOr(c.place, as, otherwise)
		case c.known != nil:
			v, ok := lang.Unbox[T](c.known)
			otherwise = func(f *Frame) T {
				if !ok {
					f.fail(errNoOverload)
				}
				return v
			}
		default:
			otherwise = unboxedOr(c, otherwise)
		}
	}
	return otherwise
}

func unboxedOr[T any](c choice, otherwise Code[T]) Code[T] {
	return func(f *Frame) (out T) {
		v := c.optional(f)
		switch {
		case f.Err != nil:
			return out
		case !v.HasValue():
			return otherwise(f)
		}
		out, ok := lang.Unbox[T](v.GetValue())
		if !ok {
			f.fail(errNoOverload)
		}
		return out
	}
}

// entryOf returns code for list[?index].
func entryOf(args []node) (node, bool) {
	list, okList := args[0].Run.(BoxedCode)
	index, okIndex := Typed[int64](args[1])
	if !okList || !okIndex {
		return node{}, false
	}
	return fold(BoxedCode(func(f *Frame) ref.Val {
		v, i := list(f), index(f)
		if f.Err != nil {
			return nil
		}
		all, ok := v.(traits.Lister)
		if !ok {
			f.fail(errNoOverload)
			return nil
		}
		if n, _ := lang.Unbox[int64](all.Size()); i < 0 || i >= n {
			return types.OptionalNone
		}
		return types.OptionalOf(all.Get(types.Int(i)))
	}), args...), true
}
