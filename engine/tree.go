package engine

import (
	"math"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// constants are facts that are the same in every run, by the name rules read them by.
type constants map[string]ref.Val

// assembler turns type-checked expressions of one stage or table into code.
type assembler struct {
	set       *setPlan
	vars      *variables
	known     constants
	interpret bool   // leave everything to the programs
	named     []node // the named expressions so far
}

// namespace assembles the named expressions. It must be called first.
func (a *assembler) namespace() *namespace {
	out := &namespace{set: a.set, slots: a.vars.slots}
	for i, p := range a.vars.programs {
		n := memoized(i, a.expression(p))
		a.named = append(a.named, n)
		out.values = append(out.values, boxed(n))
	}
	return out
}

// expression assembles a whole expression, from its program where a part of it has no code.
func (a *assembler) expression(p *program) node {
	if !a.interpret {
		if n, ok := (&tree{assembler: a, ast: p.ast}).node(p.ast.Expr()); ok {
			return n
		}
	}
	switch t := p.ast.GetType(p.ast.Expr().ID()); {
	case t.IsExactType(types.IntType):
		return evaluating[int64](p.prg)
	case t.IsExactType(types.DoubleType):
		return evaluating[float64](p.prg)
	case t.IsExactType(types.BoolType):
		return evaluating[bool](p.prg)
	case t.IsExactType(types.StringType):
		return evaluating[string](p.prg)
	case a.vars.schemas[t.TypeName()] != nil:
		return evaluating[*Record](p.prg)
	}
	return evaluating[ref.Val](p.prg)
}

// tree assembles one expression; ok is false for a construct that has no code.
type tree struct {
	*assembler
	ast *celast.AST
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
	case *Record:
		return constant(v), true
	case types.Uint, types.Bytes, types.Null:
		return node{}, false
	}
	return constant(v), true
}

func (t *tree) ident(e celast.Expr) (n node, ok bool) {
	name := strings.TrimPrefix(e.AsIdent(), ".")
	s, ok := t.vars.slots[name]
	if !ok {
		return node{}, false
	}
	if v, constant := t.known[name]; constant {
		return known(v)
	}
	switch s.kind {
	case paramSlot:
		return constant(t.set.params), true
	case gateSlot:
		return constant(t.set.gates), true
	case variableSlot:
		return t.named[s.index], true
	}
	return t.load(e, slotCell(s), nil, missing(name)).at(s), true
}

// cellCode finds the cell that holds a fact; nil after a failure.
type cellCode func(*frame) *cell

func slotCell(s slot) cellCode {
	i := s.index
	if s.kind == itemSlot {
		return func(f *frame) *cell { return &f.locals[i] }
	}
	return func(f *frame) *cell { return &f.values[i] }
}

func (t *tree) field(e celast.Expr) (n node, ok bool) {
	sel := e.AsSelect()
	operand, ok := t.node(sel.Operand())
	if !ok {
		return node{}, false
	}
	schema := t.vars.schemas[t.ast.GetType(sel.Operand().ID()).TypeName()]
	record, ok := typed[*Record](operand)
	if schema == nil || !ok {
		return node{}, false
	}
	i, ok := schema.index[sel.FieldName()]
	if !ok {
		return node{}, false
	}
	cell := fieldCell(operand, record, i)
	if sel.IsTestOnly() {
		return fold(has(cell), operand), true
	}
	f := &schema.fields[i]
	var empty *Record
	if f.Type.isRecord() {
		empty = f.Type.schema.empty
	}
	n = t.load(e, cell, empty, f.unset())
	if operand.known {
		return refold(n), true
	}
	return n, true
}

// fieldCell finds a field. Records that a slot holds are the common case, and save a call.
func fieldCell(operand node, record code[*Record], i int) cellCode {
	if s := operand.slot; s != nil && s.kind == itemSlot {
		v := s.index
		return func(f *frame) *cell {
			if r, ok := f.locals[v].ref.(*Record); ok {
				return &r.cells[i]
			}
			record(f) // tells what is wrong
			return nil
		}
	}
	return func(f *frame) *cell {
		if r := record(f); r != nil {
			return &r.cells[i]
		}
		return nil
	}
}

func has(at cellCode) code[bool] {
	return func(f *frame) bool {
		c := at(f)
		return c != nil && c.kind != unsetCell
	}
}

// load reads a cell as what the checker says it holds. An unset record reads as empty, where it has a schema to
// be empty of; anything else unset is a failure.
func (t *tree) load(e celast.Expr, at cellCode, empty *Record, unset error) node {
	bad := func(f *frame, c *cell) {
		switch {
		case c == nil: // the failure is noted
		case c.kind == unsetCell:
			f.fail(unset)
		default:
			f.fail(errNoOverload)
		}
	}
	switch typ := t.ast.GetType(e.ID()); {
	case typ.IsExactType(types.IntType):
		return dynamic(func(f *frame) int64 {
			c := at(f)
			if c == nil || c.kind != intCell {
				bad(f, c)
				return 0
			}
			return int64(c.bits)
		})
	case typ.IsExactType(types.DoubleType):
		return dynamic(func(f *frame) float64 {
			c := at(f)
			if c == nil || c.kind != doubleCell {
				bad(f, c)
				return 0
			}
			return math.Float64frombits(c.bits)
		})
	case typ.IsExactType(types.BoolType):
		return dynamic(func(f *frame) bool {
			c := at(f)
			if c == nil || c.kind != boolCell {
				bad(f, c)
				return false
			}
			return c.bits != 0
		})
	case typ.IsExactType(types.StringType):
		return dynamic(func(f *frame) string {
			c := at(f)
			if c != nil {
				if s, ok := c.ref.(types.String); ok {
					return string(s)
				}
			}
			bad(f, c)
			return ""
		})
	case t.vars.schemas[typ.TypeName()] != nil:
		return dynamic(func(f *frame) *Record {
			c := at(f)
			if c != nil {
				if r, ok := c.ref.(*Record); ok {
					return r
				}
				if c.kind == unsetCell && empty != nil {
					return empty
				}
			}
			bad(f, c)
			return nil
		})
	}
	return dynamic(func(f *frame) ref.Val {
		c := at(f)
		if c == nil || c.kind != refCell {
			bad(f, c)
			return nil
		}
		return c.ref
	})
}

// list takes lists of known values.
func (t *tree) list(e celast.Expr) (n node, ok bool) {
	var values []ref.Val
	for _, x := range e.AsList().Elements() {
		n, ok := t.node(x)
		if !ok || !n.known {
			return node{}, false
		}
		values = append(values, boxAny(n.value))
	}
	return constant(types.DefaultTypeAdapter.NativeToValue(values)), len(e.AsList().OptionalIndices()) == 0
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
	nodes := make([]node, len(args))
	for i, arg := range args {
		if nodes[i], ok = t.node(arg); !ok {
			return node{}, false
		}
	}
	if build := builders[overloads[0]]; build != nil {
		return build(nodes)
	}
	if o := t.set.types.overloads[overloads[0]]; o.build != nil {
		return o.build(nodes)
	}
	return node{}, false
}
