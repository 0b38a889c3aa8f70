package closure

import (
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// intOr gives code that reads the place, and does something else while it is unset.
func (p *place) intOr(otherwise Code[int64]) Code[int64] {
	if slot, field, ok := p.direct(ofItem); ok {
		return func(f *Frame) int64 {
			if r, ok := f.Locals[slot].Ref.(*lang.Record); ok {
				return intOrElse(&r.Cells()[field], f, p, otherwise)
			}
			return intOrElse(p.find(f), f, p, otherwise)
		}
	}
	if slot, field, ok := p.direct(ofLoops); ok {
		return func(f *Frame) int64 {
			if r, ok := f.loops[slot].Ref.(*lang.Record); ok {
				return intOrElse(&r.Cells()[field], f, p, otherwise)
			}
			return intOrElse(p.find(f), f, p, otherwise)
		}
	}
	return func(f *Frame) int64 { return intOrElse(p.find(f), f, p, otherwise) }
}

// doubleOr is intOr for doubles.
func (p *place) doubleOr(otherwise Code[float64]) Code[float64] {
	return func(f *Frame) float64 {
		c := p.find(f)
		switch {
		case c == nil:
			return 0
		case c.Kind == lang.DoubleCell:
			return math.Float64frombits(c.Bits)
		case c.Kind == lang.UnsetCell:
			return otherwise(f)
		}
		p.bad(f, c)
		return 0
	}
}

// boolOr is intOr for booleans.
func (p *place) boolOr(otherwise Code[bool]) Code[bool] {
	return func(f *Frame) bool {
		c := p.find(f)
		switch {
		case c == nil:
			return false
		case c.Kind == lang.BoolCell:
			return c.Bits != 0
		case c.Kind == lang.UnsetCell:
			return otherwise(f)
		}
		p.bad(f, c)
		return false
	}
}

// textOr is intOr for texts.
func (p *place) textOr(otherwise Code[string]) Code[string] {
	return refOr(p, otherwise, func(v ref.Val) (string, bool) {
		s, ok := v.(types.String)
		return string(s), ok
	})
}

// recordOr is intOr for records.
func (p *place) recordOr(otherwise Code[*lang.Record]) Code[*lang.Record] {
	return refOr(p, otherwise, func(v ref.Val) (*lang.Record, bool) {
		r, ok := v.(*lang.Record)
		return r, ok
	})
}

// otherOr is intOr for lists and host types.
func (p *place) otherOr(otherwise BoxedCode) BoxedCode {
	return refOr(p, otherwise, func(v ref.Val) (ref.Val, bool) { return v, v != nil })
}

func refOr[T any](p *place, otherwise Code[T], held func(ref.Val) (T, bool)) Code[T] {
	return func(f *Frame) (out T) {
		c := p.find(f)
		if c == nil {
			return out
		}
		if v, ok := held(c.Ref); ok {
			return v
		}
		if c.Kind == lang.UnsetCell {
			return otherwise(f)
		}
		p.bad(f, c)
		return out
	}
}

func intOrElse(c *lang.Cell, f *Frame, at *place, otherwise Code[int64]) int64 {
	switch {
	case c == nil:
		return 0
	case c.Kind == lang.IntCell:
		return int64(c.Bits)
	case c.Kind == lang.UnsetCell:
		return otherwise(f)
	}
	at.bad(f, c)
	return 0
}
