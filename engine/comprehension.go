package engine

import (
	"slices"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// iteration is a comprehension that is being assembled.
type iteration struct {
	name     string // of its variable
	variable node
}

// sequence is a list that comes of filter and map. What takes it can go through it without its being made.
type sequence struct {
	loop
	value  node // of each element
	mapped bool // value is not the element that the loop is at
}

// filters reports whether elements themselves come on, not all of them.
func (s *sequence) filters() bool { return s.keep != nil && !s.mapped }

// macro is what a comprehension was written as, of which CEL's parser makes loops.
type macro int

const (
	otherMacro macro = iota
	existsMacro
	allMacro
	existsOneMacro
	filterMacro
	mapMacro
)

// written tells which macro a comprehension was, with the condition and the value that were written; each may be nil.
func written(c celast.ComprehensionExpr) (m macro, when, value celast.Expr) {
	accumulator := func(e celast.Expr) bool { return e.Kind() == celast.IdentKind && e.AsIdent() == c.AccuVar() }
	step := c.LoopStep()
	if c.HasIterVar2() || step.Kind() != celast.CallKind {
		return otherMacro, nil, nil
	}
	args := step.AsCall().Args()
	switch function := step.AsCall().FunctionName(); {
	case function == operators.LogicalOr && len(args) == 2 && accumulator(args[0]) && accumulator(c.Result()) && isBool(c.AccuInit(), false):
		return existsMacro, args[1], nil
	case function == operators.LogicalAnd && len(args) == 2 && accumulator(args[0]) && accumulator(c.Result()) && isBool(c.AccuInit(), true):
		return allMacro, args[1], nil
	case !isBool(c.LoopCondition(), true):
		return otherMacro, nil, nil
	case function == operators.Conditional && accumulator(args[2]):
		when, step = args[0], args[1]
	}
	if step.Kind() != celast.CallKind || step.AsCall().FunctionName() != operators.Add || !accumulator(step.AsCall().Args()[0]) {
		return otherMacro, nil, nil
	}
	added := step.AsCall().Args()[1]
	switch {
	case c.AccuInit().Kind() == celast.LiteralKind && when != nil && isNumber(c.AccuInit(), 0) && isNumber(added, 1):
		return existsOneMacro, when, nil
	case !accumulator(c.Result()) || !isEmptyList(c.AccuInit()) || added.Kind() != celast.ListKind || added.AsList().Size() != 1 || len(added.AsList().OptionalIndices()) > 0:
		return otherMacro, nil, nil
	}
	value = added.AsList().Elements()[0]
	if when != nil && value.Kind() == celast.IdentKind && value.AsIdent() == c.IterVar() {
		return filterMacro, when, nil
	}
	return mapMacro, when, value
}

func isBool(e celast.Expr, want bool) bool {
	return e.Kind() == celast.LiteralKind && e.AsLiteral() == types.Bool(want)
}

func isNumber(e celast.Expr, want int64) bool {
	return e.Kind() == celast.LiteralKind && e.AsLiteral() == types.Int(want)
}

// comprehension takes those over lists.
func (t *tree) comprehension(e celast.Expr) (n node, ok bool) {
	c := e.AsComprehension()
	macro, when, value := written(c)
	if macro == otherMacro {
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
		return refold(n), true // it depends on nothing but its own variables
	}
	return n, ok
}

// loop assembles a comprehension: as CEL goes about it, and in one loop with those that its list comes of.
func (t *tree) loop(c celast.ComprehensionExpr, macro macro, when, value celast.Expr) (out node, ok bool) {
	over, ok := t.node(c.IterRange())
	list, isList := over.run.(boxedCode)
	kind := t.kindIn(t.ast.GetType(c.IterRange().ID()))
	if !ok || !isList || kind == noElements {
		return node{}, false
	}
	exact := &loop{list: list, kind: kind, weight: parts(when) + parts(value)}
	quick := *exact
	if from := over.from; from != nil && !from.mapped {
		quick = from.loop // the elements are those of that loop, and so is the variable
		quick.weight += exact.weight
		exact.slot = quick.slot
	} else {
		exact.slot = t.slots
		quick.slot = exact.slot
		t.slots++
	}
	variable := exact.variable(c.IterVar())
	t.loops = append(t.loops, iteration{c.IterVar(), variable})
	defer func() { t.loops = t.loops[:len(t.loops)-1] }()

	var holds code[bool]
	if when != nil {
		n, ok := t.node(when)
		if holds, _ = n.run.(code[bool]); !ok || holds == nil {
			return node{}, false
		}
	}
	switch macro {
	case existsMacro, allMacro:
		run := exact.decided(holds, macro == existsMacro)
		if quick.keep != nil {
			run = orExactly(quick.decidedQuickly(holds, macro == existsMacro), run)
		}
		return dynamic(run), true
	case existsOneMacro:
		return dynamic(exact.one(holds)), true
	case filterMacro:
		run := exact.filtered(holds)
		chained := quick.keep != nil
		if quick.keep = both(quick.keep, holds); chained {
			run = orExactly(quick.filteredQuickly(), run)
		}
		return node{run: run, from: &sequence{loop: quick, value: variable}}, true
	}
	n, ok := t.node(value)
	if !ok {
		return node{}, false
	}
	m, ok := making(t.kindOf(t.ast.GetType(value.ID())), n)
	if !ok {
		return node{}, false
	}
	run := m.mapped(exact, holds)
	chained := quick.keep != nil
	if quick.keep = both(quick.keep, holds); chained {
		run = orExactly(m.gathered(&quick), run)
	}
	return node{run: run, from: &sequence{loop: quick, value: n, mapped: true}}, true
}

// parts counts the nodes of an expression that are evaluated once; nil has one. Loops count what they go through.
func parts(e celast.Expr) int {
	if e == nil {
		return 1
	}
	visitor := &partsVisitor{count: 1}
	celast.PreOrderVisit(e, visitor)
	return visitor.count - visitor.looped
}

// partsVisitor counts all nodes, and those which loops evaluate for each element.
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

// both joins two conditions, either of which may be nil, for loops that give up at any failure.
func both(a, b code[bool]) code[bool] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(f *frame) bool { return a(f) && b(f) }
}

// loopVariable finds the variable of a comprehension around the node at hand. A name that means a fact has a dot before it
// where such a variable hides it.
func (t *tree) loopVariable(name string) (n node, ok bool) {
	for i, l := range slices.Backward(t.loops) {
		if l.name == name {
			t.reach = min(t.reach, i)
			return l.variable, true
		}
	}
	return node{}, false
}

// summing makes the sum of a list that was mapped from another without making it.
func summing(o Overload) Overload {
	build := o.build
	o.build = func(args []node) (node, bool) {
		n, ok := build(args)
		if from := args[0].from; ok && from != nil {
			if value, isInt := from.value.run.(code[int64]); isInt {
				return dynamic(orExactly(from.total(value), n.run.(code[int64]))), true
			}
		}
		return n, ok
	}
	return o
}
