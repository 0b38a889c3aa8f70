package engine

import (
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
