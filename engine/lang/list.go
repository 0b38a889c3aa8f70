package lang

import (
	"maps"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// List is an immutable list that knows its size, so that checking a limit needs no iteration.
type List struct {
	Values []ref.Val
	Weight int64 // see Weigh; not exact above MaxList
}

var _ traits.Lister = &List{}

// NewList takes ownership of values.
func NewList(values []ref.Val) *List {
	out := &List{Values: values, Weight: ListBytes}
	for _, v := range values {
		if out.Weight > MaxList {
			break
		}
		out.Weight += Weigh(v, MaxList)
	}
	return out
}

// cel converts to CEL's list, which takes more memory and is rarely needed.
func (l *List) cel() traits.Lister { return types.NewRefValList(types.DefaultTypeAdapter, l.Values) }

// Add implements traits.Adder.
func (l *List) Add(other ref.Val) ref.Val { return l.cel().Add(other) }

// Contains implements traits.Container.
func (l *List) Contains(v ref.Val) ref.Val { return l.cel().Contains(v) }

// ConvertToNative implements ref.Val.
func (l *List) ConvertToNative(t reflect.Type) (any, error) { return l.cel().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (l *List) ConvertToType(t ref.Type) ref.Val { return l.cel().ConvertToType(t) }

// Equal implements ref.Val.
func (l *List) Equal(other ref.Val) ref.Val { return l.cel().Equal(other) }

// Get implements traits.Indexer.
func (l *List) Get(index ref.Val) ref.Val { return l.cel().Get(index) }

// Iterator implements traits.Iterable.
func (l *List) Iterator() traits.Iterator { return l.cel().Iterator() }

// Size implements traits.Sizer.
func (l *List) Size() ref.Val { return types.Int(len(l.Values)) }

// Type implements ref.Val.
func (l *List) Type() ref.Type { return types.ListType }

// Value implements ref.Val.
func (l *List) Value() any { return l.Values }

// ListFrom builds a list from int64, float64, bool or string values.
func ListFrom[T any](list []T) *List {
	values := make([]ref.Val, len(list))
	for i, v := range list {
		values[i] = Box(v)
	}
	return NewList(values)
}

// Values returns a list's elements or a map's keys; ok is false for other values. Do not modify the
// result.
func Values(v ref.Val) (out []ref.Val, ok bool) {
	if l, ok := v.(*List); ok {
		return l.Values, true
	}
	list, ok := v.(traits.Iterable)
	if !ok {
		return nil, false
	}
	switch all := v.Value().(type) {
	case []ref.Val:
		return all, true
	case map[ref.Val]ref.Val:
		return slices.AppendSeq(make([]ref.Val, 0, len(all)), maps.Keys(all)), true
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		out = append(out, it.Next())
	}
	return out, true
}

func integers(v ref.Val) (out []int64, ok bool) {
	values, ok := Values(v)
	for _, x := range values {
		n, is := x.(types.Int)
		if !is {
			return nil, false
		}
		out = append(out, int64(n))
	}
	return out, ok
}
