package closure

import (
	"math"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	celoverloads "github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// Assembler compiles the type-checked expressions of one stage or table.
type Assembler struct {
	Vars          *Variables
	Params, Gates *lang.Record
	Overloads     map[string]Overload // of host functions, by overload ID
	Interpret     bool                // compile nothing; run CEL's programs

	named  []node // variables compiled so far
	steady []bool // which variables are constant within a stage

	// Each loop variable of an expression needs its own slot, apart from those of the variables it
	// reads. Other slots are reused by the next expression.
	slotsOfNamed, slots int
}

// Namespace compiles the variables. It must be called first.
func (a *Assembler) Namespace() *Namespace {
	out := &Namespace{params: a.Params, gates: a.Gates, slots: a.Vars.Slots}
	for i, p := range a.Vars.Programs {
		steady := a.isSteady(p)
		a.steady = append(a.steady, steady)
		n := memoized(i, steady, a.Expression(p))
		a.slotsOfNamed = a.slots
		a.named = append(a.named, n)
		out.values = append(out.values, Boxed(n))
	}
	return out
}

// isSteady reports whether an expression depends neither on the item nor on what rules write.
func (a *Assembler) isSteady(p *Program) bool {
	for _, name := range p.Reads {
		s, ok := a.Vars.Slots[name]
		switch {
		case !ok: // a loop variable; its range is checked here too
		case s.Kind == VariableSlot && !a.steady[s.Index], s.Kind != VariableSlot && !s.Steady:
			return false
		}
	}
	return true
}

// Expression compiles an expression, or falls back to CEL's program.
func (a *Assembler) Expression(p *Program) node {
	if !a.Interpret {
		if n, ok := a.Closure(p); ok {
			return n
		}
	}
	return a.formOf(p.Ast.GetType(p.Ast.Expr().ID())).unbox(evaluating(p))
}

// Closure compiles an expression; ok is false if a part of it is unsupported.
func (a *Assembler) Closure(p *Program) (n node, ok bool) {
	a.slots = a.slotsOfNamed
	t := &tree{Assembler: a, ast: p.Ast, reach: math.MaxInt}
	return t.node(p.Ast.Expr())
}

// tree compiles one expression; ok is false for an unsupported construct.
type tree struct {
	*Assembler
	ast *celast.AST

	loops []iteration // the enclosing comprehensions, outermost first
	reach int         // the outermost loop that the node depends on; negative = facts
}

func (t *tree) node(e celast.Expr) (n node, ok bool) {
	switch e.Kind() {
	case celast.LiteralKind:
		return known(e.AsLiteral())
	case celast.IdentKind:
		return t.ident(e)
	case celast.SelectKind:
		return t.field(e)
	case celast.ListKind:
		return t.list(e)
	case celast.CallKind:
		return t.call(e)
	case celast.ComprehensionKind:
		return t.comprehension(e)
	}
	return node{}, false
}

// known returns a constant node; ok is false for unsupported types.
func known(v ref.Val) (n node, ok bool) {
	switch v := v.(type) {
	case types.Int:
		return constant(int64(v)), true
	case types.Double:
		return constant(float64(v)), true
	case types.Bool:
		return constant(bool(v)), true
	case types.String:
		return constant(string(v)), true
	case *lang.Record:
		return constant(v), true
	case types.Uint, types.Bytes, types.Null:
		return node{}, false
	}
	return constant(v), true
}

var homes = map[slotKind]home{FactSlot: ofFacts, ItemSlot: ofItem}

// IdentName is the name of a variable without its leading dot.
func IdentName(e celast.Expr) string { return strings.TrimPrefix(e.AsIdent(), ".") }

func (t *tree) ident(e celast.Expr) (n node, ok bool) {
	if n, ok := t.loopVariable(e.AsIdent()); ok {
		return n, true
	}
	n, ok = t.fact(e)
	if !n.Known {
		t.reach = -1
	}
	return n, ok
}

func (t *tree) fact(e celast.Expr) (n node, ok bool) {
	name := IdentName(e)
	s, ok := t.Vars.Slots[name]
	if !ok {
		return node{}, false
	}
	switch s.Kind {
	case ParamSlot:
		return constant(t.Params), true
	case GateSlot:
		return constant(t.Gates), true
	case VariableSlot:
		return t.named[s.Index], true
	}
	return t.read(e, &place{home: homes[s.Kind], slot: s.Index, unset: missing(name)}), true
}

func (t *tree) field(e celast.Expr) (n node, ok bool) {
	sel := e.AsSelect()
	operand, at, ok := t.member(sel.Operand(), sel.FieldName())
	switch {
	case !ok, t.isOptionalElement(sel.Operand()):
		return node{}, false
	case sel.IsTestOnly():
		return fold(at.has(), operand), true
	case lang.IsOptional(t.ast.GetType(e.ID())):
		return perhaps(at, operand), true // everything after .? is optional
	}
	n = t.read(e, at)
	if operand.Known {
		return refold(n), true
	}
	n.place = at
	return n, true
}

// isOptionalElement reports whether an expression is the element of a list of optionals. CEL selects no field of that, so that the
// whole is left to it.
func (t *tree) isOptionalElement(e celast.Expr) bool {
	return lang.IsOptional(t.ast.GetType(e.ID())) && e.Kind() == celast.CallKind && slices.Contains(t.ast.GetOverloadIDs(e.ID()), celoverloads.IndexList)
}

// read returns code that reads a place as the type the checker assigned.
func (t *tree) read(e celast.Expr, at *place) node {
	typ := t.ast.GetType(e.ID())
	as := t.formOf(typ)
	if as == recordForm {
		return node{place: at, Run: at.record(t.Vars.Schemas[typ.TypeName()].Empty())}
	}
	return as.read(at)
}

// list compiles lists of one type; lists of mixed types only if all elements are known.
func (t *tree) list(e celast.Expr) (n node, ok bool) {
	if len(e.AsList().OptionalIndices()) > 0 {
		return node{}, false
	}
	allKnown := true
	nodes := make([]node, 0, e.AsList().Size())
	values := make([]ref.Val, 0, e.AsList().Size())
	for _, x := range e.AsList().Elements() {
		n, ok := t.node(x)
		if !ok {
			return node{}, false
		}
		nodes = append(nodes, n)
		if allKnown = allKnown && n.Known; allKnown {
			values = append(values, boxAny(n.value))
		}
	}
	if as := t.elementForm(t.ast.GetType(e.ID())); as == noForm {
		return constant(types.DefaultTypeAdapter.NativeToValue(values)), allKnown
	}
	return fold(literal(nodes), nodes...), true
}

func (t *tree) call(e celast.Expr) (n node, ok bool) {
	call := e.AsCall()
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]celast.Expr{call.Target()}, args...)
	}
	overloads := t.ast.GetOverloadIDs(e.ID())
	if len(overloads) != 1 {
		return node{}, false
	}
	switch {
	case overloads[0] == celoverloads.InList && isEmptyList(args[1]):
		return constant(false), true // as CEL's optimizer does, even if the other operand fails
	case overloads[0] == optionalSelect, isInRecord(overloads[0]):
		return t.byName(args, overloads[0] == optionalSelect, t.ast.GetType(e.ID()))
	}
	nodes := make([]node, len(args))
	for i, arg := range args {
		if nodes[i], ok = t.node(arg); !ok {
			return node{}, false
		}
	}
	switch overloads[0] {
	case celoverloads.InList:
		of := types.NewListType(t.ast.GetType(args[0].ID()))
		return inList(nodes, t.ast.GetType(args[1].ID()).IsExactType(of))
	case celoverloads.IndexList:
		return indexed(nodes, t.formOf(t.ast.GetType(e.ID())))
	case OptionalValue, OptionalOrValue:
		return t.unwrapped(e, nodes, args)
	}
	if build := builders[overloads[0]]; build != nil {
		return build(nodes)
	}
	if o := t.Overloads[overloads[0]]; o.build != nil {
		return o.build(nodes)
	}
	return node{}, false
}

func isEmptyList(e celast.Expr) bool {
	return e.Kind() == celast.ListKind && e.AsList().Size() == 0
}
