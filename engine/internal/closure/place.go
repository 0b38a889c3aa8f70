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
		c = &f.loops[p.slot]
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
	return func(f *Frame) bool {
		c := p.find(f)
		return c != nil && c.Kind != lang.UnsetCell
	}
}

// is gives code that compares a text with a known one.
func (p *place) is(text string, want bool) Code[bool] {
	read := reading(p, asText)
	return func(f *Frame) bool { return (read(f) == text) == want }
}

// reading gives code that reads a place as a T.
func reading[T any](p *place, as func(*lang.Cell) (T, bool)) Code[T] {
	return func(f *Frame) (out T) {
		c := p.find(f)
		if c != nil {
			if v, ok := as(c); ok {
				return v
			}
		}
		p.bad(f, c)
		return out
	}
}

// readingOr gives code that reads a place as a T, and does something else while it is unset.
func readingOr[T any](p *place, as func(*lang.Cell) (T, bool), otherwise Code[T]) Code[T] {
	return func(f *Frame) (out T) {
		c := p.find(f)
		if c == nil {
			return out
		}
		if v, ok := as(c); ok {
			return v
		}
		if c.Kind == lang.UnsetCell {
			return otherwise(f)
		}
		p.bad(f, c)
		return out
	}
}

// record gives code that reads the place as a record, which is empty while it is unset, unless it is a whole fact.
func (p *place) record(empty *lang.Record) Code[*lang.Record] {
	if len(p.path) == 0 {
		return reading(p, asRecord)
	}
	return readingOr(p, asRecord, func(*Frame) *lang.Record { return empty })
}

func asInt(c *lang.Cell) (int64, bool) { return int64(c.Bits), c.Kind == lang.IntCell }

func asDouble(c *lang.Cell) (float64, bool) {
	return math.Float64frombits(c.Bits), c.Kind == lang.DoubleCell
}

func asBool(c *lang.Cell) (bool, bool) { return c.Bits != 0, c.Kind == lang.BoolCell }

func asText(c *lang.Cell) (string, bool) {
	s, ok := c.Ref.(types.String)
	return string(s), ok
}

func asRecord(c *lang.Cell) (*lang.Record, bool) {
	r, ok := c.Ref.(*lang.Record)
	return r, ok
}

func asOther(c *lang.Cell) (ref.Val, bool) { return c.Ref, c.Kind == lang.RefCell }
