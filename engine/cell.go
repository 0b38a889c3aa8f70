package engine

import (
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// cell holds one fact. Numbers and booleans lie in it unboxed, so that a rule which changes one allocates nothing.
type cell struct {
	kind cellKind
	bits uint64  // of an int64, a float64 or a bool
	ref  ref.Val // of everything else
}

type cellKind uint8

// The kinds of cells. The zero cell is unset.
const (
	unsetCell cellKind = iota
	intCell
	doubleCell
	boolCell
	refCell
)

// cellOf unboxes a value; nil is unset.
func cellOf(v ref.Val) cell {
	switch v := v.(type) {
	case nil:
		return cell{}
	case types.Int:
		return cell{kind: intCell, bits: uint64(v)}
	case types.Double:
		return cell{kind: doubleCell, bits: math.Float64bits(float64(v))}
	case types.Bool:
		return cell{kind: boolCell, bits: bitsOf(bool(v))}
	}
	return cell{kind: refCell, ref: v}
}

// val boxes the value; nil when unset.
func (c *cell) val() ref.Val {
	switch c.kind {
	case unsetCell:
		return nil
	case intCell:
		return types.Int(int64(c.bits))
	case doubleCell:
		return types.Double(math.Float64frombits(c.bits))
	case boolCell:
		return types.Bool(c.bits != 0)
	}
	return c.ref
}

// equal compares as CEL does, so NaN differs from itself; unset equals unset.
func (c *cell) equal(o *cell) bool {
	if c.kind != o.kind {
		return c.kind != unsetCell && o.kind != unsetCell && c.val().Equal(o.val()) == types.True
	}
	switch c.kind {
	case doubleCell:
		return math.Float64frombits(c.bits) == math.Float64frombits(o.bits)
	case refCell:
		return c.ref.Equal(o.ref) == types.True
	}
	return c.bits == o.bits
}

func bitsOf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// box turns a Go value of the language into a CEL value.
func box[T any](v T) ref.Val {
	switch v := any(v).(type) {
	case int64:
		return types.Int(v)
	case float64:
		return types.Double(v)
	case bool:
		return types.Bool(v)
	case string:
		return types.String(v)
	case []int64:
		return newList(v)
	case ref.Val:
		return v
	}
	return types.NewErr("a Go %T is no value of the language", v)
}

// unbox is the way back; ok is false when the value has another type.
func unbox[T any](v ref.Val) (out T, ok bool) {
	switch p := any(&out).(type) {
	case *int64:
		n, is := v.(types.Int)
		*p, ok = int64(n), is
	case *float64:
		n, is := v.(types.Double)
		*p, ok = float64(n), is
	case *bool:
		b, is := v.(types.Bool)
		*p, ok = bool(b), is
	case *string:
		s, is := v.(types.String)
		*p, ok = string(s), is
	case *[]int64:
		*p, ok = integers(v)
	default:
		out, ok = v.(T)
	}
	return out, ok
}
