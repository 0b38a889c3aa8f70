package closure

import (
	"math"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	celoverloads "github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// Constants are facts that are the same in every run, by the name rules read them by.
type Constants map[string]ref.Val

// Assembler turns type-checked expressions of one stage or table into code.
type Assembler struct {
	Vars          *Variables
	Params, Gates *lang.Record
	Overloads     map[string]Overload // of functions of the host, by identifier
	Known         Constants
	Interpret     bool // leave everything to the programs

	named  []node // the named expressions so far
	steady []bool // which of them depend on nothing that changes within a stage

	// Each comprehension of an expression has a slot of its own for its variable, and so has each of those of the named
	// expressions, which are computed when they are read. Slots behind theirs are free again after an expression.
	slotsOfNamed, slots int

	general *Assembler // for items of every kind; nil = this is it
	kind    string     // the variable that is known beyond what general knows
	special []bool     // which named expressions depend on it
}

// ForKind gives an assembler for items of one kind: what is known beyond what a knows is the variable of this name. What
// does not depend on it is taken from a.
func (a *Assembler) ForKind(kind string, known Constants) *Assembler {
	return &Assembler{Vars: a.Vars, Params: a.Params, Gates: a.Gates, Overloads: a.Overloads, Known: known, general: a, kind: kind}
}

// Namespace assembles the named expressions. It must be called first.
func (a *Assembler) Namespace() *Namespace {
	out := &Namespace{params: a.Params, gates: a.Gates, slots: a.Vars.Slots}
	if a.general != nil {
		a.slotsOfNamed = a.general.slotsOfNamed
	}
	for i, p := range a.Vars.Programs {
		steady := a.isSteady(p)
		a.steady = append(a.steady, steady)
		special := a.IsSpecial(p)
		a.special = append(a.special, special)
		var n node
		if special || a.general == nil {
			n = memoized(i, steady, a.Expression(p))
			a.slotsOfNamed = a.slots
		} else {
			n = a.general.named[i]
		}
		a.named = append(a.named, n)
		out.values = append(out.values, Boxed(n))
	}
	return out
}

// isSteady reports whether an expression gives the same for every item and whatever rules write.
func (a *Assembler) isSteady(p *Program) bool {
	for _, name := range p.Reads {
		s, ok := a.Vars.Slots[name]
		switch {
		case !ok: // a variable of a comprehension, which goes over what is looked at here too
		case s.Kind == VariableSlot && !a.steady[s.Index], s.Kind != VariableSlot && !s.Steady:
			return false
		}
	}
	return true
}

// IsSpecial reports whether an expression depends on the kind of items that is being compiled for.
func (a *Assembler) IsSpecial(p *Program) bool {
	if a.general == nil || p == nil {
		return false
	}
	for _, name := range p.Reads {
		s, ok := a.Vars.Slots[name]
		if name == a.kind || ok && s.Kind == VariableSlot && a.special[s.Index] {
			return true
		}
	}
	return false
}

// Expression assembles a whole expression, from its program where a part of it has no code.
func (a *Assembler) Expression(p *Program) node {
	if !a.Interpret {
		if n, ok := a.Closure(p); ok {
			return n
		}
	}
	return a.formOf(p.Ast.GetType(p.Ast.Expr().ID())).unbox(evaluating(p))
}

// Closure assembles a whole expression; ok is false where a part of it has no code.
func (a *Assembler) Closure(p *Program) (n node, ok bool) {
	a.slots = a.slotsOfNamed
	t := &tree{Assembler: a, ast: p.Ast, reach: math.MaxInt}
	return t.node(p.Ast.Expr())
}

// tree assembles one expression; ok is false for a construct that has no code.
type tree struct {
	*Assembler
	ast *celast.AST

	loops []iteration // the comprehensions that the node at hand stands in, from outside
	reach int         // the outermost of them on whose variable what was assembled depends; less than 0 = on facts
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

// known makes a constant of a value; ok is false for types without code.
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

// IdentName is the name of a variable, without the dot that may stand before it.
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

// fact finds what a name means outside comprehensions.
func (t *tree) fact(e celast.Expr) (n node, ok bool) {
	name := IdentName(e)
	s, ok := t.Vars.Slots[name]
	if !ok {
		return node{}, false
	}
	if v, constant := t.Known[name]; constant {
		return known(v)
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
	case !ok:
		return node{}, false
	case sel.IsTestOnly():
		return fold(at.has(), operand), true
	case lang.IsOptional(t.ast.GetType(e.ID())):
		return perhaps(at, operand), true // behind .? all is optional
	}
	n = t.read(e, at)
	if operand.Known {
		return refold(n), true
	}
	n.place = at
	return n, true
}

// read gives code that reads a place as what the checker says it holds.
func (t *tree) read(e celast.Expr, at *place) node {
	typ := t.ast.GetType(e.ID())
	as := t.formOf(typ)
	if as == recordForm {
		return node{place: at, Run: at.record(t.Vars.Schemas[typ.TypeName()].Empty())}
	}
	return as.read(at)
}

// list takes lists of one type, and those of several where all in them is known.
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
	if t.elementForm(t.ast.GetType(e.ID())) == noForm {
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
		return constant(false), true // as CEL's optimizer has it, even where the other side fails
	case overloads[0] == optionalSelect, isInRecord(overloads[0]):
		return t.byName(args, overloads[0] == optionalSelect)
	}
	nodes := make([]node, len(args))
	for i, arg := range args {
		if nodes[i], ok = t.node(arg); !ok {
			return node{}, false
		}
	}
	switch overloads[0] {
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
