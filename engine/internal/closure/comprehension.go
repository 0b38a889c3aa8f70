package closure

import (
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// iteration is a comprehension being compiled.
type iteration struct {
	name     string // of its variable
	variable node
}

// macro is the macro that CEL's parser expanded into a comprehension.
type macro int

// The supported macros, and OtherMacro for the rest.
const (
	OtherMacro macro = iota
	ExistsMacro
	AllMacro
	ExistsOneMacro
	FilterMacro
	MapMacro
)

// String is the macro's name; empty for OtherMacro.
func (m macro) String() string {
	return [...]string{"", "exists", "all", "exists_one", "filter", "map"}[m]
}

// WrittenAs returns a comprehension's macro, with its condition and its value; each may be nil.
func WrittenAs(c celast.ComprehensionExpr) (m macro, when, value celast.Expr) {
	accumulator := func(e celast.Expr) bool { return e.Kind() == celast.IdentKind && e.AsIdent() == c.AccuVar() }
	step := c.LoopStep()
	if c.HasIterVar2() || step.Kind() != celast.CallKind {
		return OtherMacro, nil, nil
	}
	args := step.AsCall().Args()
	switch function := step.AsCall().FunctionName(); {
	case function == operators.LogicalOr && len(args) == 2 && accumulator(args[0]) && accumulator(c.Result()) && isBool(c.AccuInit(), false):
		return ExistsMacro, args[1], nil
	case function == operators.LogicalAnd && len(args) == 2 && accumulator(args[0]) && accumulator(c.Result()) && isBool(c.AccuInit(), true):
		return AllMacro, args[1], nil
	case !isBool(c.LoopCondition(), true):
		return OtherMacro, nil, nil
	case function == operators.Conditional && accumulator(args[2]):
		when, step = args[0], args[1]
	}
	if step.Kind() != celast.CallKind || step.AsCall().FunctionName() != operators.Add || !accumulator(step.AsCall().Args()[0]) {
		return OtherMacro, nil, nil
	}
	added := step.AsCall().Args()[1]
	switch {
	case c.AccuInit().Kind() == celast.LiteralKind && when != nil && isNumber(c.AccuInit(), 0) && isNumber(added, 1):
		return ExistsOneMacro, when, nil
	case !accumulator(c.Result()) || !isEmptyList(c.AccuInit()) || added.Kind() != celast.ListKind || added.AsList().Size() != 1 || len(added.AsList().OptionalIndices()) > 0:
		return OtherMacro, nil, nil
	}
	value = added.AsList().Elements()[0]
	if when != nil && value.Kind() == celast.IdentKind && value.AsIdent() == c.IterVar() {
		return FilterMacro, when, nil
	}
	return MapMacro, when, value
}

func isBool(e celast.Expr, want bool) bool {
	return e.Kind() == celast.LiteralKind && e.AsLiteral() == types.Bool(want)
}

func isNumber(e celast.Expr, want int64) bool {
	return e.Kind() == celast.LiteralKind && e.AsLiteral() == types.Int(want)
}

// comprehension compiles comprehensions over lists.
func (t *tree) comprehension(e celast.Expr) (n node, ok bool) {
	c := e.AsComprehension()
	macro, when, value := WrittenAs(c)
	if macro == OtherMacro {
		return node{}, false
	}
	depth, outer := len(t.loops), t.reach
	t.reach = depth
	n, ok = t.loop(c, macro, when, value)
	closed := t.reach >= depth
	if t.reach = min(outer, t.reach); closed {
		t.reach = outer
	}
	if ok && closed {
		return refold(n), true // it depends on no variable but its own
	}
	return n, ok
}

func (t *tree) loop(c celast.ComprehensionExpr, macro macro, when, value celast.Expr) (out node, ok bool) {
	over, ok := t.node(c.IterRange())
	list, isList := over.Run.(BoxedCode)
	element := t.elementForm(t.ast.GetType(c.IterRange().ID()))
	if !ok || !isList || element == noForm {
		return node{}, false
	}
	l := &loop{list: list, slot: t.slots, weight: parts(when) + parts(value)}
	t.slots++
	variable := element.read(&place{home: ofLoops, slot: l.slot, unset: missing(c.IterVar())})
	t.loops = append(t.loops, iteration{c.IterVar(), variable})
	defer func() { t.loops = t.loops[:len(t.loops)-1] }()

	var holds Code[bool]
	if when != nil {
		n, ok := t.node(when)
		if holds, _ = n.Run.(Code[bool]); !ok || holds == nil {
			return node{}, false
		}
	}
	switch macro {
	case ExistsMacro, AllMacro:
		return dynamic(l.decided(holds, macro == ExistsMacro)), true
	case ExistsOneMacro:
		return dynamic(l.one(holds)), true
	case FilterMacro:
		return dynamic(l.mapped(Boxed(variable), holds)), true
	}
	n, ok := t.node(value)
	if !ok || t.formOf(t.ast.GetType(value.ID())) == noForm {
		return node{}, false
	}
	return dynamic(l.mapped(Boxed(n), holds)), true
}

// parts counts the nodes of an expression outside loop bodies; 1 for nil.
func parts(e celast.Expr) int {
	if e == nil {
		return 1
	}
	visitor := &partsVisitor{count: 1}
	celast.PreOrderVisit(e, visitor)
	return visitor.count - visitor.looped
}

// partsVisitor counts all nodes, and those in loop bodies.
type partsVisitor struct{ count, looped int }

// VisitExpr implements celast.Visitor.
func (v *partsVisitor) VisitExpr(e celast.Expr) {
	v.count++
	if e.Kind() != celast.ComprehensionKind {
		return
	}
	inner := &partsVisitor{}
	c := e.AsComprehension()
	for _, part := range []celast.Expr{c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
		celast.PreOrderVisit(part, inner)
	}
	v.looped += inner.count - inner.looped
}

// VisitEntryExpr implements celast.Visitor.
func (v *partsVisitor) VisitEntryExpr(celast.EntryExpr) {}

// loopVariable finds the variable of an enclosing comprehension. CEL puts a dot before the name of
// a fact that such a variable hides.
func (t *tree) loopVariable(name string) (n node, ok bool) {
	for i, l := range slices.Backward(t.loops) {
		if l.name == name {
			t.reach = min(t.reach, i)
			return l.variable, true
		}
	}
	return node{}, false
}
