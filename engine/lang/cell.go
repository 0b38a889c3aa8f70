package lang

import (
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Cell holds one fact. Numbers and booleans are unboxed, so changing one does not allocate.
type Cell struct {
	Kind CellKind
	Bits uint64  // of an int64, a float64 or a bool
	Ref  ref.Val // of everything else
}

// CellKind is how a cell stores its value.
type CellKind uint8

// The kinds of cells. The zero cell is unset.
const (
	UnsetCell CellKind = iota
	IntCell
	DoubleCell
	BoolCell
	RefCell
)

// CellOf unboxes a value; nil is unset.
func CellOf(v ref.Val) Cell {
	switch v := v.(type) {
	case nil:
		return Cell{}
	case types.Int:
		return Cell{Kind: IntCell, Bits: uint64(v)}
	case types.Double:
		return Cell{Kind: DoubleCell, Bits: math.Float64bits(float64(v))}
	case types.Bool:
		return Cell{Kind: BoolCell, Bits: BitsOf(bool(v))}
	}
	return Cell{Kind: RefCell, Ref: v}
}

// Val boxes the value; nil when unset.
func (c *Cell) Val() ref.Val {
	switch c.Kind {
	case UnsetCell:
		return nil
	case IntCell:
		return types.Int(int64(c.Bits))
	case DoubleCell:
		return types.Double(math.Float64frombits(c.Bits))
	case BoolCell:
		return types.Bool(c.Bits != 0)
	}
	return c.Ref
}

// Equal compares as CEL does, so NaN differs from itself; unset equals unset.
func (c *Cell) Equal(o *Cell) bool {
	if c.Kind != o.Kind {
		return c.Kind != UnsetCell && o.Kind != UnsetCell && c.Val().Equal(o.Val()) == types.True
	}
	switch c.Kind {
	case DoubleCell:
		return math.Float64frombits(c.Bits) == math.Float64frombits(o.Bits)
	case RefCell:
		return c.Ref.Equal(o.Ref) == types.True
	}
	return c.Bits == o.Bits
}

// BitsOf encodes a boolean for Cell.Bits.
func BitsOf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Box converts a Go value to a CEL value.
func Box[T any](v T) ref.Val {
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
		return ListFrom(v)
	case ref.Val:
		return v
	}
	return types.NewErr("a Go %T is not a value of the language", v)
}

// Unbox converts a CEL value to a Go value; ok is false for another type.
func Unbox[T any](v ref.Val) (out T, ok bool) {
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
