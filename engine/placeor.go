package engine

import (
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// intOr gives code that reads the place, and does something else while it is unset.
func (p *place) intOr(otherwise code[int64]) code[int64] {
	if slot, field, ok := p.direct(ofItem); ok {
		return func(f *frame) int64 {
			if r, ok := f.locals[slot].ref.(*Record); ok {
				return intOrElse(&r.cells[field], f, p, otherwise)
			}
			return intOrElse(p.find(f), f, p, otherwise)
		}
	}
	if slot, field, ok := p.direct(ofLoops); ok {
		return func(f *frame) int64 {
			if r, ok := f.loops[slot].ref.(*Record); ok {
				return intOrElse(&r.cells[field], f, p, otherwise)
			}
			return intOrElse(p.find(f), f, p, otherwise)
		}
	}
	return func(f *frame) int64 { return intOrElse(p.find(f), f, p, otherwise) }
}

// doubleOr is intOr for doubles.
func (p *place) doubleOr(otherwise code[float64]) code[float64] {
	return func(f *frame) float64 {
		c := p.find(f)
		switch {
		case c == nil:
			return 0
		case c.kind == doubleCell:
			return math.Float64frombits(c.bits)
		case c.kind == unsetCell:
			return otherwise(f)
		}
		p.bad(f, c)
		return 0
	}
}

// boolOr is intOr for booleans.
func (p *place) boolOr(otherwise code[bool]) code[bool] {
	return func(f *frame) bool {
		c := p.find(f)
		switch {
		case c == nil:
			return false
		case c.kind == boolCell:
			return c.bits != 0
		case c.kind == unsetCell:
			return otherwise(f)
		}
		p.bad(f, c)
		return false
	}
}

// textOr is intOr for texts.
func (p *place) textOr(otherwise code[string]) code[string] {
	return refOr(p, otherwise, func(v ref.Val) (string, bool) {
		s, ok := v.(types.String)
		return string(s), ok
	})
}

// recordOr is intOr for records.
func (p *place) recordOr(otherwise code[*Record]) code[*Record] {
	return refOr(p, otherwise, func(v ref.Val) (*Record, bool) {
		r, ok := v.(*Record)
		return r, ok
	})
}

// otherOr is intOr for lists and host types.
func (p *place) otherOr(otherwise boxedCode) boxedCode {
	return refOr(p, otherwise, func(v ref.Val) (ref.Val, bool) { return v, v != nil })
}

func refOr[T any](p *place, otherwise code[T], held func(ref.Val) (T, bool)) code[T] {
	return func(f *frame) (out T) {
		c := p.find(f)
		if c == nil {
			return out
		}
		if v, ok := held(c.ref); ok {
			return v
		}
		if c.kind == unsetCell {
			return otherwise(f)
		}
		p.bad(f, c)
		return out
	}
}

func intOrElse(c *cell, f *frame, at *place, otherwise code[int64]) int64 {
	switch {
	case c == nil:
		return 0
	case c.kind == intCell:
		return int64(c.bits)
	case c.kind == unsetCell:
		return otherwise(f)
	}
	at.bad(f, c)
	return 0
}
