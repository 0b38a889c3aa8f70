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

// Estimate is the static estimate of an expression, in steps.
type Estimate struct {
	At      source.Scalar
	Subject string
	Name    string // the variable it defines; empty = none
	Own     int64  // excluding variables
	Reads   []*Estimate
}

// Total is the cost including all variables that the expression reads; each is evaluated once.
func (e *Estimate) Total() int64 {
	out := e.Own
	for _, v := range e.Reads {
		out = lang.SaturatingAdd(out, v.Own)
	}
	return out
}

// Cost is what a run has taken.
type Cost struct {
	Steps int64
	Bytes int64 // of the strings and lists that it built
}
