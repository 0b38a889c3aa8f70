package registry

import "github.com/celvpa/celvpa/engine/lang"

// BoundVar is what rules set to bound an amount, instead of changing it. Nothing reads it: what rules set is kept, in order, for
// a solver. To unset it takes back what rules set before.
type BoundVar struct {
	Name string
	Type lang.Type // a record of integers
	// Of is the fact that it bounds, a writable one of the scope's items or, for a bound of the point, of Scope's.
	Of    string
	Scope string
	Doc   string
}

// Bound is what one rule set to a BoundVar.
type Bound struct {
	Item  *Item // whose; nil = of the point
	Var   *BoundVar
	Field int // index in the record, e.g. that of cpu
	Value int64
	// Level orders bounds by precedence: those of a later stage have a higher one.
	Level int
	// Note is that of the rule.
	Note string

	Source int32 // of the engine, for traces
}

// Solver chooses amounts within bounds, when a stage asks for it.
type Solver struct {
	Name string
	Doc  string
	// Solve returns the amounts that change. It must not change facts.
	Solve func(*Facts, []Bound) []Chosen
}

// Chosen is a fact that a solver changes.
type Chosen struct {
	Item  *Item
	Index int    // of the item
	Var   string // of the item
	Path  []int  // of fields in its record
	Value lang.Cell
	// By is what asks for it; nil = nothing that a trace or a note should name.
	By *Bound
	// Note is one for the item, beside that of By.
	Note string
}
