package engine

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// listOf is a list that was made by code. It never changes. E is int64 or string, which have no boxes there, or ref.Val.
type listOf[E any] struct {
	values []E
	weight int64 // of a list of ref.Val; see weigh
}

var _ traits.Lister = &listOf[int64]{}

// newList makes a list of what is not to be changed any more. The host sees to its size.
func newList[E any](values []E) ref.Val {
	out := &listOf[E]{values: values}
	if list, ok := any(values).([]ref.Val); ok {
		out.weight = listBytes
		for _, v := range list {
			if out.weight > maxList {
				break
			}
			out.weight += weigh(v, maxList)
		}
	}
	return out
}

// made makes a list that an expression built; nil after a failure.
func made[E any](f *frame, values []E) ref.Val {
	if !f.build(listBytes + valueBytes*len(values)) {
		return nil
	}
	list := newList(values)
	if weigh(list, maxList) > maxList {
		f.fail(errListTooLarge)
		return nil
	}
	return list
}

// boxed is the list as CEL has it, for what is seldom asked of one.
func (l *listOf[E]) boxed() traits.Lister {
	list := make([]ref.Val, len(l.values))
	for i, v := range l.values {
		list[i] = box(v)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, list)
}

// Add implements traits.Adder.
func (l *listOf[E]) Add(other ref.Val) ref.Val { return l.boxed().Add(other) }

// Contains implements traits.Container.
func (l *listOf[E]) Contains(v ref.Val) ref.Val { return l.boxed().Contains(v) }

// ConvertToNative implements ref.Val.
func (l *listOf[E]) ConvertToNative(t reflect.Type) (any, error) { return l.boxed().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (l *listOf[E]) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.boxed().ConvertToType(t)
}

// Equal implements ref.Val.
func (l *listOf[E]) Equal(other ref.Val) ref.Val { return l.boxed().Equal(other) }

// Get implements traits.Indexer.
func (l *listOf[E]) Get(index ref.Val) ref.Val {
	if i, ok := index.(types.Int); ok && i >= 0 && int64(i) < int64(len(l.values)) {
		return box(l.values[i])
	}
	return l.boxed().Get(index)
}

// Iterator implements traits.Iterable.
func (l *listOf[E]) Iterator() traits.Iterator { return l.boxed().Iterator() }

// Size implements traits.Sizer.
func (l *listOf[E]) Size() ref.Val { return types.Int(len(l.values)) }

// Type implements ref.Val.
func (l *listOf[E]) Type() ref.Type { return types.ListType }

// Value implements ref.Val.
func (l *listOf[E]) Value() any { return l.values }

// integers takes a list apart; ok is false when something else is in it. The result may be shared: it is not to be changed.
func integers(v ref.Val) (out []int64, ok bool) {
	if l, ok := v.(*listOf[int64]); ok {
		return l.values, true
	}
	ok = eachOf(v, func(x ref.Val) bool {
		n, is := x.(types.Int)
		out = append(out, int64(n))
		return is
	})
	return out, ok
}

// texts is integers for texts.
func texts(v ref.Val) (out []string, ok bool) {
	if l, ok := v.(*listOf[string]); ok {
		return l.values, true
	}
	if list, ok := v.Value().([]string); ok {
		return list, true
	}
	ok = eachOf(v, func(x ref.Val) bool {
		s, is := x.(types.String)
		out = append(out, string(s))
		return is
	})
	return out, ok
}

// values takes any list apart; see integers.
func values(v ref.Val) (out []ref.Val, ok bool) {
	if l, ok := v.(*listOf[ref.Val]); ok {
		return l.values, true
	}
	if list, ok := v.Value().([]ref.Val); ok {
		return list, true
	}
	ok = eachOf(v, func(x ref.Val) bool {
		out = append(out, x)
		return true
	})
	return out, ok
}

// eachOf visits what is in a list until a visit says no; false also for what is no list.
func eachOf(v ref.Val, visit func(ref.Val) bool) bool {
	list, ok := v.(traits.Lister)
	if !ok {
		return false
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		if !visit(it.Next()) {
			return false
		}
	}
	return true
}

// elementKind says how the elements of a list lie in a frame.
type elementKind uint8

const (
	noElements elementKind = iota // they have no code
	intElements
	doubleElements
	boolElements
	textElements
	recordElements
	boxedElements
)

// kindOf is the kind of elements of a type.
func (a *assembler) kindOf(t *types.Type) elementKind {
	switch {
	case t == nil:
		return noElements
	case t.IsExactType(types.IntType):
		return intElements
	case t.IsExactType(types.DoubleType):
		return doubleElements
	case t.IsExactType(types.BoolType):
		return boolElements
	case t.IsExactType(types.StringType):
		return textElements
	case a.vars.schemas[t.TypeName()] != nil:
		return recordElements
	case t.Kind() == types.ListKind, t.Kind() == types.OpaqueKind:
		return boxedElements
	}
	return noElements
}

// kindIn is the kind of the elements of a list type.
func (a *assembler) kindIn(t *types.Type) elementKind {
	if t == nil || t.Kind() != types.ListKind || len(t.Parameters()) != 1 {
		return noElements
	}
	return a.kindOf(t.Parameters()[0])
}

// elements are a list taken apart: integers and texts without boxes, everything else with them.
type elements struct {
	ints   []int64
	texts  []string
	values []ref.Val
}

// list boxes the list as a whole; nil after a failure.
func (e *elements) list(f *frame, kind elementKind) ref.Val {
	switch kind {
	case intElements:
		return made(f, e.ints)
	case textElements:
		return made(f, e.texts)
	}
	return made(f, e.values)
}

// appended appends to a list that will have no more than room elements.
func appended[T any](list []T, v T, room int) []T {
	if list == nil {
		list = make([]T, 0, room)
	}
	return append(list, v)
}

// maker makes lists of what expressions give.
type maker interface {
	// literal is a list that is spelt out.
	literal() boxedCode
	// mapped is a list of what the first expression gives for the elements of another for which a condition holds; nil =
	// always.
	mapped(l *loop, when code[bool]) boxedCode
}

type makerOf[E any] []code[E]

// making gives a maker for elements of a kind; ok is false where it cannot be.
func making(kind elementKind, nodes ...node) (m maker, ok bool) {
	switch kind {
	case noElements:
		return nil, false
	case intElements:
		return makingOf(typed[int64], nodes)
	case textElements:
		return makingOf(typed[string], nodes)
	}
	return makingOf(func(n node) (boxedCode, bool) { return boxed(n), true }, nodes)
}

func makingOf[E any](as func(node) (code[E], bool), nodes []node) (m makerOf[E], ok bool) {
	for _, n := range nodes {
		c, ok := as(n)
		if !ok {
			return nil, false
		}
		m = append(m, c)
	}
	return m, true
}

func (m makerOf[E]) literal() boxedCode {
	return func(f *frame) ref.Val {
		if f.err != nil {
			return nil
		}
		out := make([]E, len(m))
		for i, value := range m {
			if out[i] = value(f); f.err != nil {
				return nil
			}
		}
		return made(f, out)
	}
}

// indexed is code for the element of a list at a place.
func indexed(args []node, kind elementKind) (n node, ok bool) {
	list, okList := args[0].run.(boxedCode)
	index, okIndex := typed[int64](args[1])
	if !okList || !okIndex {
		return node{}, false
	}
	switch kind {
	case intElements:
		return fold(at(list, index, integers), args...), true
	case textElements:
		return fold(at(list, index, texts), args...), true
	case doubleElements:
		return fold(unboxing[float64](at(list, index, values)), args...), true
	case boolElements:
		return fold(unboxing[bool](at(list, index, values)), args...), true
	case recordElements:
		return fold(unboxing[*Record](at(list, index, values)), args...), true
	case boxedElements:
		return fold(at(list, index, values), args...), true
	}
	return node{}, false
}

func at[T any](list boxedCode, index code[int64], open func(ref.Val) ([]T, bool)) code[T] {
	return func(f *frame) (out T) {
		v, i := list(f), index(f)
		if f.err != nil {
			return out
		}
		all, ok := open(v)
		switch {
		case !ok:
			f.fail(errNoOverload)
		case i < 0 || i >= int64(len(all)):
			f.fail(outOfBounds(i))
		default:
			return all[i]
		}
		return out
	}
}

func unboxing[T any](c boxedCode) code[T] {
	return func(f *frame) (out T) {
		v := c(f)
		if f.err != nil {
			return out
		}
		out, ok := unbox[T](v)
		if !ok {
			f.fail(errNoOverload)
		}
		return out
	}
}

// outOfBounds is the failure of reading an element that a list does not have.
type outOfBounds int64

// Error says it as CEL does.
func (i outOfBounds) Error() string { return fmt.Sprintf("index out of bounds: %d", int64(i)) }
