package closure

import (
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celvpa/celvpa/engine/lang"
)

// entry reads an entry of a map. It returns nil on failure and where there is no such entry.
type entry func(*Frame) ref.Val

// entryIn returns an entry of the map, or optional map, that a node returns. An optional without a
// map has no entries.
func entryIn(of node, key BoxedCode) (e entry, ok bool) {
	m, ok := of.Run.(BoxedCode)
	if list, optional := choicesOf(of); optional && of.choices != nil {
		m = firstOf(list, func(*Frame) ref.Val { return types.OptionalNone }, asOther)
	}
	return func(f *Frame) ref.Val {
		v, k := m(f), key(f)
		if f.Err != nil {
			return nil
		}
		if o, optional := v.(*types.Optional); optional {
			if !o.HasValue() {
				return nil
			}
			v = o.GetValue()
		}
		all, isMap := v.(traits.Mapper)
		if !isMap {
			f.fail(errNoOverload)
			return nil
		}
		found, _ := all.Find(k)
		if types.IsUnknownOrError(found) {
			f.fail(errNoOverload)
			return nil
		}
		return found
	}, ok
}

func (e entry) has() Code[bool] { return func(f *Frame) bool { return e(f) != nil } }

// required fails where there is no entry.
func (e entry) required() BoxedCode {
	return func(f *Frame) ref.Val {
		v := e(f)
		if v == nil {
			f.fail(errNoEntry)
		}
		return v
	}
}

// isMap reports whether an expression returns a map or an optional map.
func (t *tree) isMap(e celast.Expr) bool {
	return lang.Inside(t.ast.GetType(e.ID())).Kind() == types.MapKind
}

// entryNamed compiles operand.key, operand.?key and has(operand.key), for a map.
func (t *tree) entryNamed(operand celast.Expr, key string, result *types.Type, test bool) (n node, ok bool) {
	of, ok := t.node(operand)
	if !ok {
		return node{}, false
	}
	e, ok := entryIn(of, Boxed(constant(key)))
	switch {
	case !ok:
		return node{}, false
	case test:
		return dynamic(e.has()), true
	case lang.IsOptional(result):
		return chosen([]choice{{entry: e}}), true
	}
	return t.entryRead(e, result)
}

// entryRead compiles the read of an entry that must be there.
func (t *tree) entryRead(e entry, result *types.Type) (n node, ok bool) {
	as := t.formOf(result)
	return as.unbox(e.required()), as != noForm
}

// inMap compiles key in map.
func inMap(args []node) (node, bool) {
	e, ok := entryIn(args[1], Boxed(args[0]))
	return dynamic(e.has()), ok
}

// entryAt compiles map[?key].
func entryAt(args []node) (node, bool) {
	e, ok := entryIn(args[0], Boxed(args[1]))
	return chosen([]choice{{entry: e}}), ok
}
