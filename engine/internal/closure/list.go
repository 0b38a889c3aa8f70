package closure

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// made returns a list that an expression built; nil on failure.
func made(f *Frame, values []ref.Val) ref.Val {
	if !f.build(lang.ListBytes + lang.ValueBytes*len(values)) {
		return nil
	}
	list := lang.NewList(values)
	if list.Weight > lang.MaxList {
		f.fail(ErrListTooLarge)
		return nil
	}
	return list
}

// literal returns code for a list literal.
func literal(nodes []node) BoxedCode {
	entries := make([]BoxedCode, len(nodes))
	for i, n := range nodes {
		entries[i] = Boxed(n)
	}
	return func(f *Frame) ref.Val {
		out := make([]ref.Val, len(entries))
		for i, entry := range entries {
			if f.Err != nil {
				return nil
			}
			out[i] = entry(f)
		}
		if f.Err != nil {
			return nil
		}
		return made(f, out)
	}
}

// indexed returns code for list[index].
func indexed(args []node, as form) (n node, ok bool) {
	list, okList := args[0].Run.(BoxedCode)
	index, okIndex := Typed[int64](args[1])
	if !okList || !okIndex || as == noForm {
		return node{}, false
	}
	element := as.unbox(func(f *Frame) ref.Val {
		v, i := list(f), index(f)
		if f.Err != nil {
			return nil
		}
		all, ok := lang.Values(v)
		switch {
		case !ok:
			f.fail(errNoOverload)
		case i < 0 || i >= int64(len(all)):
			f.fail(outOfBounds(i))
		default:
			return all[i]
		}
		return nil
	})
	if args[0].Known && args[1].Known {
		return refold(element), true
	}
	return element, true
}

type outOfBounds int64

// Error matches CEL's wording.
func (i outOfBounds) Error() string { return fmt.Sprintf("index out of bounds: %d", int64(i)) }

// form is the Go type that code uses for a CEL type.
type form uint8

const (
	noForm form = iota // unsupported
	intForm
	doubleForm
	boolForm
	textForm
	recordForm
	boxedForm // ref.Val: lists and host types
)

func (a *Assembler) formOf(t *types.Type) form {
	switch {
	case t == nil:
		return noForm
	case t.IsExactType(types.IntType):
		return intForm
	case t.IsExactType(types.DoubleType):
		return doubleForm
	case t.IsExactType(types.BoolType):
		return boolForm
	case t.IsExactType(types.StringType):
		return textForm
	case a.Vars.Schemas[t.TypeName()] != nil:
		return recordForm
	case t.Kind() == types.ListKind, t.Kind() == types.OpaqueKind:
		return boxedForm
	}
	return noForm
}

// elementForm is the form of a list's elements, or of a map's keys.
func (a *Assembler) elementForm(t *types.Type) form {
	if t == nil || t.Kind() != types.ListKind && t.Kind() != types.MapKind || len(t.Parameters()) == 0 {
		return noForm
	}
	return a.formOf(t.Parameters()[0])
}

// read returns a node that reads a place.
func (as form) read(at *place) node {
	n := node{place: at}
	switch as {
	case intForm:
		n.Run = reading(at, asInt)
	case doubleForm:
		n.Run = reading(at, asDouble)
	case boolForm:
		n.Run = reading(at, asBool)
	case textForm:
		n.Run = reading(at, asText)
	case recordForm:
		n.Run = reading(at, asRecord)
	default:
		n.Run = reading(at, asOther)
	}
	return n
}

// unbox returns a node that unboxes the value of code.
func (as form) unbox(c BoxedCode) node {
	switch as {
	case intForm:
		return dynamic(unboxing[int64](c))
	case doubleForm:
		return dynamic(unboxing[float64](c))
	case boolForm:
		return dynamic(unboxing[bool](c))
	case textForm:
		return dynamic(unboxing[string](c))
	case recordForm:
		return dynamic(unboxing[*lang.Record](c))
	}
	return dynamic(c)
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
