package closure

import (
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"

	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// Program is one type-checked expression and where it stands. Code is assembled from the tree; what has no code of its own is
// evaluated by CEL's program, which is planned when it is first asked for.
type Program struct {
	Plan  func() (cel.Program, error)
	Ast   *celast.AST
	Reads []string // names of variables, also those of comprehensions

	Estimate *Estimate
	Pos      source.Position
}

// Slot says where a frame finds a variable.
type Slot struct {
	Kind   slotKind
	Index  int
	Live   bool // it reaches what rules write
	Steady bool // no rule changes it, and it is the same for every item
}

// slotKind says what a slot is in.
type slotKind int

// The kinds of slots.
const (
	FactSlot slotKind = iota
	ItemSlot
	ParamSlot
	GateSlot
	VariableSlot
)

// Variables is the name table of a stage or decision list, with the named expressions of its author.
type Variables struct {
	Slots    map[string]Slot
	Schemas  map[string]*lang.Schema
	Programs []*Program
}

// Estimate is what is known about an expression before it runs.
type Estimate struct {
	At      source.Scalar
	Subject string
	Name    string       // of the variable that it is; empty = it is none
	Extent  *lang.Extent // of what it gives
	Own     Cost         // without that of variables
	Reads   []*Estimate
	Steady  bool // it gives the same for every item and whatever rules write
}

// Total is the cost of the expression with all variables that it reads, each of which is computed once.
func (e *Estimate) Total() Cost {
	out := e.Own
	for _, v := range e.Reads {
		out = out.Plus(v.Own)
	}
	return out
}

// Cost is what evaluating something takes at most.
type Cost struct {
	Steps int64
	Bytes int64 // of texts and lists that are built
}

// Plus adds up, held at the ends of int64.
func (c Cost) Plus(o Cost) Cost {
	return Cost{lang.SaturatingAdd(c.Steps, o.Steps), lang.SaturatingAdd(c.Bytes, o.Bytes)}
}

// Times is the cost of doing it n times.
func (c Cost) Times(n int64) Cost {
	return Cost{lang.SaturatingTimes(n, c.Steps, 0), lang.SaturatingTimes(n, c.Bytes, 0)}
}

// Or is the cost of either.
func (c Cost) Or(o Cost) Cost { return Cost{max(c.Steps, o.Steps), max(c.Bytes, o.Bytes)} }

// Going is the cost of going through so much of a value.
func Going(bytes int64) Cost { return Cost{Steps: bytes / lang.StepBytes} }
