package closure

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// made makes a list that an expression built; nil after a failure.
func made[E any](f *Frame, values []E) ref.Val {
	if !f.build(lang.ListBytes + lang.ValueBytes*len(values)) {
		return nil
	}
	list := lang.NewList(values)
	if lang.Weigh(list, lang.MaxList) > lang.MaxList {
		f.fail(ErrListTooLarge)
		return nil
	}
	return list
}

// kindOf is the kind of elements of a type.
func (a *Assembler) kindOf(t *types.Type) elementKind {
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
	case a.Vars.Schemas[t.TypeName()] != nil:
		return recordElements
	case t.Kind() == types.ListKind, t.Kind() == types.OpaqueKind:
		return boxedElements
	}
	return noElements
}

// kindIn is the kind of the elements of a list type.
func (a *Assembler) kindIn(t *types.Type) elementKind {
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
func (e *elements) list(f *Frame, kind elementKind) ref.Val {
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
	literal() BoxedCode
	// mapped is a list of what the first expression gives for the elements of another for which a condition holds; nil =
	// always.
	mapped(l *loop, when Code[bool]) BoxedCode
}

type makerOf[E any] []Code[E]

// making gives a maker for elements of a kind; ok is false where it cannot be.
func making(kind elementKind, nodes ...node) (m maker, ok bool) {
	switch kind {
	case noElements:
		return nil, false
	case intElements:
		return makingOf(Typed[int64], nodes)
	case textElements:
		return makingOf(Typed[string], nodes)
	}
	return makingOf(func(n node) (BoxedCode, bool) { return Boxed(n), true }, nodes)
}

func makingOf[E any](as func(node) (Code[E], bool), nodes []node) (m makerOf[E], ok bool) {
	for _, n := range nodes {
		c, ok := as(n)
		if !ok {
			return nil, false
		}
		m = append(m, c)
	}
	return m, true
}

func (m makerOf[E]) literal() BoxedCode {
	return func(f *Frame) ref.Val {
		if f.Err != nil {
			return nil
		}
		out := make([]E, len(m))
		for i, value := range m {
			if out[i] = value(f); f.Err != nil {
				return nil
			}
		}
		return made(f, out)
	}
}

// indexed is code for the element of a list at a place.
func indexed(args []node, kind elementKind) (n node, ok bool) {
	list, okList := args[0].Run.(BoxedCode)
	index, okIndex := Typed[int64](args[1])
	if !okList || !okIndex {
		return node{}, false
	}
	switch kind {
	case intElements:
		return fold(at(list, index, lang.Integers), args...), true
	case textElements:
		return fold(at(list, index, lang.Texts), args...), true
	case doubleElements:
		return fold(unboxing[float64](at(list, index, lang.Values)), args...), true
	case boolElements:
		return fold(unboxing[bool](at(list, index, lang.Values)), args...), true
	case recordElements:
		return fold(unboxing[*lang.Record](at(list, index, lang.Values)), args...), true
	case boxedElements:
		return fold(at(list, index, lang.Values), args...), true
	}
	return node{}, false
}

func at[T any](list BoxedCode, index Code[int64], open func(ref.Val) ([]T, bool)) Code[T] {
	return func(f *Frame) (out T) {
		v, i := list(f), index(f)
		if f.Err != nil {
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

func unboxing[T any](c BoxedCode) Code[T] {
	return func(f *Frame) (out T) {
		v := c(f)
		if f.Err != nil {
			return out
		}
		out, ok := lang.Unbox[T](v)
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
