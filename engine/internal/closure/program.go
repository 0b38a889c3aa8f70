package closure

import (
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"

	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// Program is one type-checked expression and its position. CEL's program, the fallback for what has
// no code, is planned on first use.
type Program struct {
	Plan  func() (cel.Program, error)
	Ast   *celast.AST
	Reads []string // names of variables, including loop variables

	Estimate *Estimate
	Pos      source.Position
}

// Slot locates a variable in a frame.
type Slot struct {
	Kind   slotKind
	Index  int
	Live   bool // shows what rules write
	Steady bool // no rule changes it, and all items share it
}

type slotKind int

// The kinds of slots.
const (
	FactSlot slotKind = iota
	ItemSlot
	ParamSlot
	GateSlot
	VariableSlot
)

// Variables is the symbol table of a stage or decision list, including the author's variables.
type Variables struct {
	Slots    map[string]Slot
	Schemas  map[string]*lang.Schema
	Programs []*Program
}

// Estimate is the static estimate of an expression.
type Estimate struct {
	At      source.Scalar
	Subject string
	Name    string       // the variable it defines; empty = none
	Extent  *lang.Extent // of the result
	Own     Cost         // excluding variables
	Reads   []*Estimate
	Steady  bool // the result depends neither on the item nor on what rules write
}

// Total is the cost including all variables that the expression reads; each is evaluated once.
func (e *Estimate) Total() Cost {
	out := e.Own
	for _, v := range e.Reads {
		out = out.Plus(v.Own)
	}
	return out
}

// Cost is an upper bound for an evaluation.
type Cost struct {
	Steps int64
	Bytes int64 // of the strings and lists it builds
}

// Plus adds two costs, saturating.
func (c Cost) Plus(o Cost) Cost {
	return Cost{lang.SaturatingAdd(c.Steps, o.Steps), lang.SaturatingAdd(c.Bytes, o.Bytes)}
}

// Times multiplies a cost, saturating.
func (c Cost) Times(n int64) Cost {
	return Cost{lang.SaturatingTimes(n, c.Steps, 0), lang.SaturatingTimes(n, c.Bytes, 0)}
}

// Or is the larger of two costs.
func (c Cost) Or(o Cost) Cost { return Cost{max(c.Steps, o.Steps), max(c.Bytes, o.Bytes)} }

// Going is the cost of iterating over that many bytes of a value.
func Going(bytes int64) Cost { return Cost{Steps: bytes / lang.StepBytes} }
