// Package closure compiles type-checked CEL expressions into trees of Go closures over unboxed
// values and folds constants. CEL evaluates expressions with an unsupported construct, such as a
// map. Both ways give the same value or failure.
//
// Closures run on a Frame, which bounds the steps and the memory of a run.
package closure

import (
	"errors"
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celvpa/celvpa/engine/lang"
)

// Code is a compiled expression. T is int64, float64, bool, string, *Record or, for everything
// else, ref.Val. After a failure, which the frame records, the value is meaningless.
type Code[T any] func(*Frame) T

// BoxedCode is code whose values are boxed: lists and host types.
type BoxedCode = Code[ref.Val]

// node is a partly compiled expression. A known node has the same value in every run.
type node struct {
	Run   any // Code[T]
	value any // T, when known
	Known bool
	place *place // of a fact; nil when known

	choices []choice // of an optional value; nil when known
}

func constant[T any](v T) node {
	return node{Run: Code[T](func(*Frame) T { return v }), value: v, Known: true}
}

func dynamic[T any](c Code[T]) node { return node{Run: c} }

// maxFolded bounds a folded constant, which is kept as long as the rules are, in bytes.
const maxFolded = 8 << 10

// fold evaluates c if all its inputs are known. It leaves an expression that fails, so that it
// fails in each run, and one whose value is large.
func fold[T any](c Code[T], inputs ...node) node {
	for _, in := range inputs {
		if !in.Known {
			return dynamic(c)
		}
	}
	f := &Frame{}
	if v := c(f); f.Err == nil && !isLarge(v) {
		return constant(v)
	}
	return dynamic(c)
}

func isLarge(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) > maxFolded
	case ref.Val:
		return lang.Weigh(v, maxFolded) > maxFolded
	}
	return false
}

// refold folds a node with known inputs.
func refold(n node) node {
	switch c := n.Run.(type) {
	case Code[int64]:
		return fold(c)
	case Code[float64]:
		return fold(c)
	case Code[bool]:
		return fold(c)
	case Code[string]:
		return fold(c)
	case Code[*lang.Record]:
		return fold(c)
	}
	return fold(n.Run.(BoxedCode))
}

// IsKnown reports whether a node always has the given value.
func IsKnown[T comparable](n node, want T) bool {
	v, ok := n.value.(T)
	return n.Known && ok && v == want
}

// Typed returns a node's code as a T, unboxed if necessary; ok is false for another type.
func Typed[T any](n node) (c Code[T], ok bool) {
	if c, ok = n.Run.(Code[T]); ok {
		return c, true
	}
	inner, boxed := n.Run.(BoxedCode)
	if !boxed || !travelsBoxed[T]() {
		return nil, false
	}
	return func(f *Frame) (out T) {
		v, ok := lang.Unbox[T](inner(f))
		if !ok {
			f.fail(errNoOverload)
		}
		return v
	}, true
}

// Boxed returns the node's code with its value boxed.
func Boxed(n node) BoxedCode {
	if n.Known {
		v := boxAny(n.value)
		return func(*Frame) ref.Val { return v }
	}
	switch c := n.Run.(type) {
	case Code[int64]:
		return boxing(c)
	case Code[float64]:
		return boxing(c)
	case Code[bool]:
		return boxing(c)
	case Code[string]:
		return boxing(c)
	case Code[*lang.Record]:
		return boxing(c)
	}
	return n.Run.(BoxedCode)
}

func boxAny(v any) ref.Val {
	switch v := v.(type) {
	case int64:
		return lang.Box(v)
	case float64:
		return lang.Box(v)
	case bool:
		return lang.Box(v)
	case string:
		return lang.Box(v)
	}
	return v.(ref.Val)
}

func boxing[T any](c Code[T]) BoxedCode {
	return func(f *Frame) ref.Val {
		v := c(f)
		if f.Err != nil {
			return nil
		}
		return lang.Box(v)
	}
}

// Storing returns code that stores the node's value in a cell, meaningless after a failure.
func Storing(n node) func(*Frame, *lang.Cell) {
	if c, ok := n.Run.(Code[*lang.Record]); ok {
		return func(f *Frame, to *lang.Cell) {
			if r := c(f); r != nil {
				// Copied, so that later writes do not change the source.
				*to = lang.Cell{Kind: lang.RefCell, Ref: r.Copy()}
			}
		}
	}
	if v := n.value; n.Known && fits(boxAny(v)) {
		v := lang.CellOf(boxAny(v))
		return func(_ *Frame, to *lang.Cell) { *to = v }
	}
	switch c := n.Run.(type) {
	case Code[int64]:
		return func(f *Frame, to *lang.Cell) { *to = lang.Cell{Kind: lang.IntCell, Bits: uint64(c(f))} }
	case Code[float64]:
		return func(f *Frame, to *lang.Cell) { *to = lang.Cell{Kind: lang.DoubleCell, Bits: math.Float64bits(c(f))} }
	case Code[bool]:
		return func(f *Frame, to *lang.Cell) { *to = lang.Cell{Kind: lang.BoolCell, Bits: lang.BitsOf(c(f))} }
	}
	c := Boxed(n)
	return func(f *Frame, to *lang.Cell) {
		v := c(f)
		if f.Err == nil && !fits(v) {
			f.fail(errFactTooLarge)
		}
		*to = lang.CellOf(v)
	}
}

// fits reports whether a value is within the assumed size of fields.
func fits(v ref.Val) bool {
	switch v := v.(type) {
	case types.String:
		return len(v) <= lang.MaxTextSize
	case types.Bytes:
		return len(v) <= lang.MaxTextSize
	case traits.Lister, traits.Mapper:
		return lang.Weigh(v, lang.MaxStoredList) <= lang.MaxStoredList
	}
	return true
}

// memoized evaluates the i-th variable on first read and caches its value or failure.
func memoized(i int, steady bool, n node) node {
	if n.Known {
		return n
	}
	at := recall{i, steady}
	switch c := n.Run.(type) {
	case Code[int64]:
		return remembering(at, c, func(m *memo) int64 { return int64(m.bits) }, func(m *memo, v int64) { m.bits = uint64(v) })
	case Code[float64]:
		return remembering(at, c, func(m *memo) float64 { return math.Float64frombits(m.bits) }, func(m *memo, v float64) { m.bits = math.Float64bits(v) })
	case Code[bool]:
		return remembering(at, c, func(m *memo) bool { return m.bits != 0 }, func(m *memo, v bool) { m.bits = lang.BitsOf(v) })
	case Code[string]:
		return remembering(at, c, func(m *memo) string { return m.text }, func(m *memo, v string) { m.text = v })
	case Code[*lang.Record]:
		return remembering(at, c, func(m *memo) *lang.Record { r, _ := m.ref.(*lang.Record); return r }, func(m *memo, v *lang.Record) { m.ref = v })
	}
	out := remembering(at, n.Run.(BoxedCode), func(m *memo) ref.Val { return m.ref }, func(m *memo, v ref.Val) { m.ref = v })
	if n.choices != nil && lasting(n.choices) {
		out.choices = n.choices
	}
	return out
}

func remembering[T any](at recall, c Code[T], load func(*memo) T, keep func(*memo, T)) node {
	return dynamic(func(f *Frame) T {
		m, fresh := at.from(f)
		if fresh {
			keep(m, c(f))
			m.err = f.Err
		}
		return load(m)
	})
}

type recall struct {
	index  int
	steady bool
}

// from returns the memo and whether to fill it. After an earlier failure in the expression it stays
// empty, because the frame could not tell a new failure from the earlier one.
func (r recall) from(f *Frame) (m *memo, fresh bool) {
	if r.steady {
		m = &f.steady[r.index]
	} else {
		m = &f.memo[r.index]
	}
	switch {
	case f.Err != nil:
		return m, false
	case m.done:
		f.Err = m.err
		return m, false
	}
	m.done = true
	return m, true
}

// evaluating returns code that runs CEL's program.
func evaluating(p *Program) BoxedCode {
	prg, err := p.Plan()
	return func(f *Frame) ref.Val {
		switch {
		case f.Err != nil:
			return nil
		case err != nil:
			f.fail(err)
			return nil
		}
		v, err := f.evaluate(prg)
		if err != nil {
			f.fail(err)
			return nil
		}
		return v
	}
}

// Failures, worded as in CEL.
var (
	errNoOverload = errors.New("no such overload")
	errOverflow   = errors.New("integer overflow")
	errDivide     = errors.New("division by zero")
	errModulus    = errors.New("modulus by zero")
	errNaN        = errors.New("NaN values cannot be ordered")
)
