package closure

import (
	"math"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// place is where a fact is stored: a frame slot or a field of base, then a path through nested
// records. Walking the path in one call is much of what makes rules fast.
type place struct {
	home  home
	slot  int
	base  Code[*lang.Record] // replaces the slot
	path  []fieldStep
	unset error // reported when the place is unset
}

// home selects the array that a slot indexes.
type home uint8

const (
	ofFacts home = iota
	ofItem
	ofLoops // variables of the active comprehensions
)

type fieldStep struct {
	index int
	empty *lang.Record // what the record reads as when unset; nil = reading it fails
	unset error        // reported when the record is unset and empty is nil
}

// below returns the place of a field of the record at p.
func (p *place) below(schema *lang.Schema, i int) *place {
	step := fieldStep{index: i, unset: p.unset}
	if p.base != nil || len(p.path) > 0 {
		step.empty = schema.Empty()
	}
	out := &place{home: p.home, slot: p.slot, base: p.base, unset: lang.Unset(schema.Fields()[i].Name)}
	out.path = append(slices.Clip(p.path), step)
	return out
}

// find returns the cell at the place; nil on failure.
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

// instead returns what a cell without a record reads as; nil on failure.
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

// bad records why a cell cannot be read.
func (p *place) bad(f *Frame, c *lang.Cell) {
	switch {
	case c == nil: // find already failed
	case c.Kind == lang.UnsetCell:
		f.fail(p.unset)
	default:
		f.fail(errNoOverload)
	}
}

func (p *place) has() Code[bool] {
	return func(f *Frame) bool {
		c := p.find(f)
		return c != nil && c.Kind != lang.UnsetCell
	}
}

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

// readingOr reads a place as a T, or runs otherwise if it is unset.
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

// record reads the place as a record. An unset nested record reads as empty; an unset fact fails.
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

func asAny(c *lang.Cell) (ref.Val, bool) { return c.Val(), c.Kind != lang.UnsetCell }

func asOther(c *lang.Cell) (ref.Val, bool) { return c.Ref, c.Kind == lang.RefCell }
