package lang

import (
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// List is a list that was made by code. It never changes. E is int64 or string, which have no boxes there, or ref.Val.
type List[E any] struct {
	Values []E
	Weight int64 // of a list of ref.Val; see weigh
}

var _ traits.Lister = &List[int64]{}

// NewList makes a list of what is not to be changed any more. The host sees to its size.
func NewList[E any](values []E) ref.Val {
	out := &List[E]{Values: values}
	if list, ok := any(values).([]ref.Val); ok {
		out.Weight = ListBytes
		for _, v := range list {
			if out.Weight > MaxList {
				break
			}
			out.Weight += Weigh(v, MaxList)
		}
	}
	return out
}

// Boxed is the list as CEL has it, for what is seldom asked of one.
func (l *List[E]) Boxed() traits.Lister {
	list := make([]ref.Val, len(l.Values))
	for i, v := range l.Values {
		list[i] = Box(v)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, list)
}

// Add implements traits.Adder.
func (l *List[E]) Add(other ref.Val) ref.Val { return l.Boxed().Add(other) }

// Contains implements traits.Container.
func (l *List[E]) Contains(v ref.Val) ref.Val { return l.Boxed().Contains(v) }

// ConvertToNative implements ref.Val.
func (l *List[E]) ConvertToNative(t reflect.Type) (any, error) { return l.Boxed().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (l *List[E]) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.Boxed().ConvertToType(t)
}

// Equal implements ref.Val.
func (l *List[E]) Equal(other ref.Val) ref.Val { return l.Boxed().Equal(other) }

// Get implements traits.Indexer.
func (l *List[E]) Get(index ref.Val) ref.Val {
	if i, ok := index.(types.Int); ok && i >= 0 && int64(i) < int64(len(l.Values)) {
		return Box(l.Values[i])
	}
	return l.Boxed().Get(index)
}

// Iterator implements traits.Iterable.
func (l *List[E]) Iterator() traits.Iterator { return l.Boxed().Iterator() }

// Size implements traits.Sizer.
func (l *List[E]) Size() ref.Val { return types.Int(len(l.Values)) }

// Type implements ref.Val.
func (l *List[E]) Type() ref.Type { return types.ListType }

// Value implements ref.Val.
func (l *List[E]) Value() any { return l.Values }

// Integers takes a list apart; ok is false when something else is in it. The result may be shared: it is not to be changed.
func Integers(v ref.Val) (out []int64, ok bool) {
	if l, ok := v.(*List[int64]); ok {
		return l.Values, true
	}
	ok = eachOf(v, func(x ref.Val) bool {
		n, is := x.(types.Int)
		out = append(out, int64(n))
		return is
	})
	return out, ok
}

// Texts is integers for texts.
func Texts(v ref.Val) (out []string, ok bool) {
	if l, ok := v.(*List[string]); ok {
		return l.Values, true
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

// Values takes any list apart; see integers.
func Values(v ref.Val) (out []ref.Val, ok bool) {
	if l, ok := v.(*List[ref.Val]); ok {
		return l.Values, true
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
