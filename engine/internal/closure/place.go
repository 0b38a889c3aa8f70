package closure

import (
	"math"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// place says where a fact lies: in a slot of the frame, or in a field of the record that an expression gives, and from
// there down the fields of nested records. Walking there in one call is much of what makes rules fast.
type place struct {
	home  home
	slot  int
	base  Code[*lang.Record] // instead of a slot
	path  []fieldStep
	unset error // of reading the place while it is unset
}

// home says whose slots are meant.
type home uint8

const (
	ofFacts home = iota
	ofItem
	ofLoops // of the comprehensions that are under way
)

type fieldStep struct {
	index int
	empty *lang.Record // what the record to take the field of reads as while it is unset; nil = it may not be unset
	unset error        // of reading that record while it is unset, when it may not be
}

// below is the place of a field of the record at p.
func (p *place) below(schema *lang.Schema, i int) *place {
	step := fieldStep{index: i, unset: p.unset}
	if p.base != nil || len(p.path) > 0 {
		step.empty = schema.Empty()
	}
	out := &place{home: p.home, slot: p.slot, base: p.base, unset: lang.Unset(schema.Fields()[i].Name)}
	out.path = append(slices.Clip(p.path), step)
	return out
}

// find gives the cell at the place; nil after a failure.
func (p *place) find(f *Frame) *lang.Cell {
	var c *lang.Cell
	path := p.path
	switch {
	case p.base != nil:
		r := p.base(f)
		if r == nil {
			return nil
		}
		c, path = &r.Cells()[path[0].index], path[1:]
	case p.home == ofItem:
		c = &f.Locals[p.slot]
	case p.home == ofFacts:
		c = &f.Values[p.slot]
	default:
		c = &f.loops[p.slot].Cell
	}
	for i := range path {
		r, ok := c.Ref.(*lang.Record)
		if !ok {
			if r = path[i].instead(f, c); r == nil {
				return nil
			}
		}
		c = &r.Cells()[path[i].index]
	}
	return c
}

// instead gives what a cell that holds no record reads as; nil is a failure.
func (s *fieldStep) instead(f *Frame, c *lang.Cell) *lang.Record {
	switch {
	case c.Kind != lang.UnsetCell:
		f.fail(errNoOverload)
	case s.empty == nil:
		f.fail(s.unset)
	default:
		return s.empty
	}
	return nil
}

// bad notes why a cell cannot be read.
func (p *place) bad(f *Frame, c *lang.Cell) {
	switch {
	case c == nil: // noted by find
	case c.Kind == lang.UnsetCell:
		f.fail(p.unset)
	default:
		f.fail(errNoOverload)
	}
}

// has gives code that tells whether the place is set.
func (p *place) has() Code[bool] {
	if slot, field, ok := p.direct(ofItem); ok {
		return func(f *Frame) bool {
			if r, ok := f.Locals[slot].Ref.(*lang.Record); ok {
				return r.Cells()[field].Kind != lang.UnsetCell
			}
			return p.find(f) != nil
		}
	}
	if slot, field, ok := p.direct(ofLoops); ok {
		return func(f *Frame) bool {
			if r, ok := f.loops[slot].Ref.(*lang.Record); ok {
				return r.Cells()[field].Kind != lang.UnsetCell
			}
			return p.find(f) != nil
		}
	}
	return func(f *Frame) bool {
		c := p.find(f)
		return c != nil && c.Kind != lang.UnsetCell
	}
}

// direct reports whether the place is one of the commonest of all, a field of a record in a slot of that home.
func (p *place) direct(in home) (slot, field int, ok bool) {
	if p.base != nil || p.home != in || len(p.path) != 1 {
		return 0, 0, false
	}
	return p.slot, p.path[0].index, true
}

func (p *place) int() Code[int64] {
	if slot, field, ok := p.direct(ofItem); ok {
		return func(f *Frame) int64 {
			if r, ok := f.Locals[slot].Ref.(*lang.Record); ok {
				if c := &r.Cells()[field]; c.Kind == lang.IntCell {
					return int64(c.Bits)
				}
			}
			return p.anyInt(f)
		}
	}
	if slot, field, ok := p.direct(ofLoops); ok {
		return func(f *Frame) int64 {
			if r, ok := f.loops[slot].Ref.(*lang.Record); ok {
				if c := &r.Cells()[field]; c.Kind == lang.IntCell {
					return int64(c.Bits)
				}
			}
			return p.anyInt(f)
		}
	}
	return p.anyInt
}

func (p *place) anyInt(f *Frame) int64 {
	c := p.find(f)
	if c == nil || c.Kind != lang.IntCell {
		p.bad(f, c)
		return 0
	}
	return int64(c.Bits)
}

func (p *place) double(f *Frame) float64 {
	c := p.find(f)
	if c == nil || c.Kind != lang.DoubleCell {
		p.bad(f, c)
		return 0
	}
	return math.Float64frombits(c.Bits)
}

func (p *place) bool(f *Frame) bool {
	c := p.find(f)
	if c == nil || c.Kind != lang.BoolCell {
		p.bad(f, c)
		return false
	}
	return c.Bits != 0
}

func (p *place) text(f *Frame) string {
	c := p.find(f)
	if c != nil {
		if s, ok := c.Ref.(types.String); ok {
			return string(s)
		}
	}
	p.bad(f, c)
	return ""
}

// is gives code that compares a text with a known one.
func (p *place) is(text string, want bool) Code[bool] {
	if p.home == ofItem && len(p.path) == 0 {
		slot := p.slot
		return func(f *Frame) bool {
			if s, ok := f.Locals[slot].Ref.(types.String); ok {
				return (string(s) == text) == want
			}
			p.text(f)
			return false
		}
	}
	return func(f *Frame) bool { return (p.text(f) == text) == want }
}

// record gives code that reads the place as a record, which is empty while it is unset, unless it is a whole fact.
func (p *place) record(empty *lang.Record) Code[*lang.Record] {
	return func(f *Frame) *lang.Record {
		c := p.find(f)
		if c != nil {
			if r, ok := c.Ref.(*lang.Record); ok {
				return r
			}
			if c.Kind == lang.UnsetCell && len(p.path) > 0 {
				return empty
			}
		}
		p.bad(f, c)
		return nil
	}
}

func (p *place) other(f *Frame) ref.Val {
	c := p.find(f)
	if c == nil || c.Kind != lang.RefCell {
		p.bad(f, c)
		return nil
	}
	return c.Ref
}
