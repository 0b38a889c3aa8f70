package engine

import (
	"math"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// place says where a fact lies: in a slot of the frame, or in a field of the record that an expression gives, and from
// there down the fields of nested records. Walking there in one call is much of what makes rules fast.
type place struct {
	home  home
	slot  int
	base  code[*Record] // instead of a slot
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
	empty *Record // what the record to take the field of reads as while it is unset; nil = it may not be unset
	unset error   // of reading that record while it is unset, when it may not be
}

// below is the place of a field of the record at p.
func (p *place) below(schema *Schema, i int) *place {
	step := fieldStep{index: i, unset: p.unset}
	if p.base != nil || len(p.path) > 0 {
		step.empty = schema.empty
	}
	out := &place{home: p.home, slot: p.slot, base: p.base, unset: unset(schema.fields[i].Name)}
	out.path = append(slices.Clip(p.path), step)
	return out
}

// find gives the cell at the place; nil after a failure.
func (p *place) find(f *frame) *cell {
	var c *cell
	path := p.path
	switch {
	case p.base != nil:
		r := p.base(f)
		if r == nil {
			return nil
		}
		c, path = &r.cells[path[0].index], path[1:]
	case p.home == ofItem:
		c = &f.locals[p.slot]
	case p.home == ofFacts:
		c = &f.values[p.slot]
	default:
		c = &f.loops[p.slot].cell
	}
	for i := range path {
		r, ok := c.ref.(*Record)
		if !ok {
			if r = path[i].instead(f, c); r == nil {
				return nil
			}
		}
		c = &r.cells[path[i].index]
	}
	return c
}

// instead gives what a cell that holds no record reads as; nil is a failure.
func (s *fieldStep) instead(f *frame, c *cell) *Record {
	switch {
	case c.kind != unsetCell:
		f.fail(errNoOverload)
	case s.empty == nil:
		f.fail(s.unset)
	default:
		return s.empty
	}
	return nil
}

// bad notes why a cell cannot be read.
func (p *place) bad(f *frame, c *cell) {
	switch {
	case c == nil: // noted by find
	case c.kind == unsetCell:
		f.fail(p.unset)
	default:
		f.fail(errNoOverload)
	}
}

// has gives code that tells whether the place is set.
func (p *place) has() code[bool] {
	if slot, field, ok := p.direct(ofItem); ok {
		return func(f *frame) bool {
			if r, ok := f.locals[slot].ref.(*Record); ok {
				return r.cells[field].kind != unsetCell
			}
			return p.find(f) != nil
		}
	}
	if slot, field, ok := p.direct(ofLoops); ok {
		return func(f *frame) bool {
			if r, ok := f.loops[slot].ref.(*Record); ok {
				return r.cells[field].kind != unsetCell
			}
			return p.find(f) != nil
		}
	}
	return func(f *frame) bool {
		c := p.find(f)
		return c != nil && c.kind != unsetCell
	}
}

// direct reports whether the place is one of the commonest of all, a field of a record in a slot of that home.
func (p *place) direct(in home) (slot, field int, ok bool) {
	if p.base != nil || p.home != in || len(p.path) != 1 {
		return 0, 0, false
	}
	return p.slot, p.path[0].index, true
}

func (p *place) int() code[int64] {
	if slot, field, ok := p.direct(ofItem); ok {
		return func(f *frame) int64 {
			if r, ok := f.locals[slot].ref.(*Record); ok {
				if c := &r.cells[field]; c.kind == intCell {
					return int64(c.bits)
				}
			}
			return p.anyInt(f)
		}
	}
	if slot, field, ok := p.direct(ofLoops); ok {
		return func(f *frame) int64 {
			if r, ok := f.loops[slot].ref.(*Record); ok {
				if c := &r.cells[field]; c.kind == intCell {
					return int64(c.bits)
				}
			}
			return p.anyInt(f)
		}
	}
	return p.anyInt
}

func (p *place) anyInt(f *frame) int64 {
	c := p.find(f)
	if c == nil || c.kind != intCell {
		p.bad(f, c)
		return 0
	}
	return int64(c.bits)
}

func (p *place) double(f *frame) float64 {
	c := p.find(f)
	if c == nil || c.kind != doubleCell {
		p.bad(f, c)
		return 0
	}
	return math.Float64frombits(c.bits)
}

func (p *place) bool(f *frame) bool {
	c := p.find(f)
	if c == nil || c.kind != boolCell {
		p.bad(f, c)
		return false
	}
	return c.bits != 0
}

func (p *place) text(f *frame) string {
	c := p.find(f)
	if c != nil {
		if s, ok := c.ref.(types.String); ok {
			return string(s)
		}
	}
	p.bad(f, c)
	return ""
}

// is gives code that compares a text with a known one.
func (p *place) is(text string, want bool) code[bool] {
	if p.home == ofItem && len(p.path) == 0 {
		slot := p.slot
		return func(f *frame) bool {
			if s, ok := f.locals[slot].ref.(types.String); ok {
				return (string(s) == text) == want
			}
			p.text(f)
			return false
		}
	}
	return func(f *frame) bool { return (p.text(f) == text) == want }
}

// record gives code that reads the place as a record, which is empty while it is unset, unless it is a whole fact.
func (p *place) record(empty *Record) code[*Record] {
	return func(f *frame) *Record {
		c := p.find(f)
		if c != nil {
			if r, ok := c.ref.(*Record); ok {
				return r
			}
			if c.kind == unsetCell && len(p.path) > 0 {
				return empty
			}
		}
		p.bad(f, c)
		return nil
	}
}

func (p *place) other(f *frame) ref.Val {
	c := p.find(f)
	if c == nil || c.kind != refCell {
		p.bad(f, c)
		return nil
	}
	return c.ref
}
