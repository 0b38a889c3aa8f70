package engine

import (
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
)

// program is one type-checked expression and where it stands. Code is assembled from the tree; what has no code of its own is
// evaluated by CEL's program, which is planned when it is first asked for.
type program struct {
	plan  func() (cel.Program, error)
	ast   *celast.AST
	reads []string // names of variables, also those of comprehensions

	estimate *estimate
	pos      Position
}

// slot says where a frame finds a variable.
type slot struct {
	kind   slotKind
	index  int
	live   bool // it reaches what rules write
	steady bool // no rule changes it, and it is the same for every item
}

type slotKind int

const (
	factSlot slotKind = iota
	itemSlot
	paramSlot
	gateSlot
	variableSlot
)

// variables is the name table of a stage or decision list, with the named expressions of its author.
type variables struct {
	slots    map[string]slot
	schemas  map[string]*Schema
	programs []*program
}

// estimate is what is known about an expression before it runs.
type estimate struct {
	at      Scalar
	subject string
	name    string  // of the variable that it is; empty = it is none
	extent  *extent // of what it gives
	own     cost    // without that of variables
	reads   []*estimate
	steady  bool // it gives the same for every item and whatever rules write
}

// total is the cost of the expression with all variables that it reads, each of which is computed once.
func (e *estimate) total() cost {
	out := e.own
	for _, v := range e.reads {
		out = out.plus(v.own)
	}
	return out
}

// cost is what evaluating something takes at most.
type cost struct {
	steps int64
	bytes int64 // of texts and lists that are built
}

func (c cost) plus(o cost) cost {
	return cost{SaturatingAdd(c.steps, o.steps), SaturatingAdd(c.bytes, o.bytes)}
}

func (c cost) times(n int64) cost {
	return cost{saturatingTimes(n, c.steps, 0), saturatingTimes(n, c.bytes, 0)}
}

func (c cost) or(o cost) cost { return cost{max(c.steps, o.steps), max(c.bytes, o.bytes)} }

// going is the cost of going through so much of a value.
func going(bytes int64) cost { return cost{steps: bytes / stepBytes} }
