package engine

import (
	"errors"
	"fmt"
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// code is an expression as a Go function. T is int64, float64, bool, string, *Record or, for everything else, ref.Val.
// A failure is noted in the frame, and the value then means nothing.
type code[T any] func(*frame) T

type boxedCode = code[ref.Val]

// node is an expression on its way to code. A known node has the same value in every run.
type node struct {
	run   any // code[T]
	value any // T, when known
	known bool
	place *place // of a fact, unless it is known
	chain *chain // of && or ||

	choices []choice // of an optional value, unless it is known
}

func constant[T any](v T) node {
	return node{run: code[T](func(*frame) T { return v }), value: v, known: true}
}

// dynamic is a node whose value is only known in a run.
func dynamic[T any](c code[T]) node { return node{run: c} }

// maxFolded bounds what is computed beforehand and kept for as long as the rules are in force, in bytes.
const maxFolded = 8 << 10

// fold computes a node whose inputs are all known. An expression that fails stays, to fail in each run, and so does one
// whose value is large.
func fold[T any](c code[T], inputs ...node) node {
	for _, in := range inputs {
		if !in.known {
			return dynamic(c)
		}
	}
	f := frames.Get().(*frame)
	v := c(f)
	err := f.failure()
	f.steps, f.bytes = 0, 0
	clear(f.loops)
	frames.Put(f)
	if err != nil || isLarge(v) {
		return dynamic(c)
	}
	return constant(v)
}

// isLarge reports whether a value is not to be kept.
func isLarge(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) > maxFolded
	case ref.Val:
		return weigh(v, maxFolded) > maxFolded
	}
	return false
}

// refold folds a node whose inputs are known to be known.
func refold(n node) node {
	switch c := n.run.(type) {
	case code[int64]:
		return fold(c)
	case code[float64]:
		return fold(c)
	case code[bool]:
		return fold(c)
	case code[string]:
		return fold(c)
	case code[*Record]:
		return fold(c)
	}
	return fold(n.run.(boxedCode))
}

// isKnown reports whether a node has one particular value in every run.
func isKnown[T comparable](n node, want T) bool {
	v, ok := n.value.(T)
	return n.known && ok && v == want
}

// typed gives a node's code as a T; ok is false when it gives something else. Lists and host types are taken out of ref.Val.
func typed[T any](n node) (c code[T], ok bool) {
	if c, ok = n.run.(code[T]); ok {
		return c, true
	}
	inner, boxed := n.run.(boxedCode)
	if !boxed || !travelsBoxed[T]() {
		return nil, false
	}
	return func(f *frame) (out T) {
		v, ok := unbox[T](inner(f))
		if !ok {
			f.fail(errNoOverload)
		}
		return v
	}, true
}

// boxed gives the node's code with its value boxed.
func boxed(n node) boxedCode {
	if n.known {
		v := boxAny(n.value)
		return func(*frame) ref.Val { return v }
	}
	switch c := n.run.(type) {
	case code[int64]:
		return boxing(c)
	case code[float64]:
		return boxing(c)
	case code[bool]:
		return boxing(c)
	case code[string]:
		return boxing(c)
	case code[*Record]:
		return boxing(c)
	}
	return n.run.(boxedCode)
}

func boxAny(v any) ref.Val {
	switch v := v.(type) {
	case int64:
		return box(v)
	case float64:
		return box(v)
	case bool:
		return box(v)
	case string:
		return box(v)
	}
	return v.(ref.Val)
}

func boxing[T any](c code[T]) boxedCode {
	return func(f *frame) ref.Val {
		v := c(f)
		if f.err != nil {
			return nil
		}
		return box(v)
	}
}

// storing gives code that stores the node's value in a cell that holds a type. The cell means nothing after a failure.
func storing(n node, t Type) func(*frame, *cell) {
	if c, ok := n.run.(code[*Record]); ok {
		return func(f *frame, to *cell) {
			if r := c(f); r != nil {
				// A copy: what rules go on to write is no change of where it came from.
				*to = cell{kind: refCell, ref: r.Copy()}
			}
		}
	}
	if v := n.value; n.known && fits(boxAny(v), t) {
		v := cellOf(boxAny(v))
		return func(_ *frame, to *cell) { *to = v }
	}
	switch c := n.run.(type) {
	case code[int64]:
		return func(f *frame, to *cell) { *to = cell{kind: intCell, bits: uint64(c(f))} }
	case code[float64]:
		return func(f *frame, to *cell) { *to = cell{kind: doubleCell, bits: math.Float64bits(c(f))} }
	case code[bool]:
		return func(f *frame, to *cell) { *to = cell{kind: boolCell, bits: bitsOf(c(f))} }
	}
	c := boxed(n)
	return func(f *frame, to *cell) {
		v := c(f)
		if f.err == nil && !fits(v, t) {
			f.fail(errFactTooLarge)
		}
		*to = cellOf(v)
	}
}

// fits reports whether a value is no larger than fields of a type are taken to be.
func fits(v ref.Val, t Type) bool {
	switch v := v.(type) {
	case types.String:
		return len(v) <= maxTextSize
	case types.Bytes:
		return len(v) <= maxTextSize
	case traits.Lister, traits.Mapper:
		most := fieldExtent(t.cel).bytes
		return weigh(v, most) <= most
	}
	return true
}

// memoized gives code that computes the i-th named expression when it is first read. A failure is remembered too.
func memoized(i int, steady bool, n node) node {
	if n.known {
		return n
	}
	at := recall{i, steady}
	switch c := n.run.(type) {
	case code[int64]:
		return dynamic(func(f *frame) int64 {
			m, fresh := at.from(f)
			if fresh {
				m.bits = uint64(c(f))
				m.err = f.err
			}
			return int64(m.bits)
		})
	case code[float64]:
		return dynamic(func(f *frame) float64 {
			m, fresh := at.from(f)
			if fresh {
				m.bits = math.Float64bits(c(f))
				m.err = f.err
			}
			return math.Float64frombits(m.bits)
		})
	case code[bool]:
		return dynamic(func(f *frame) bool {
			m, fresh := at.from(f)
			if fresh {
				m.bits = bitsOf(c(f))
				m.err = f.err
			}
			return m.bits != 0
		})
	case code[string]:
		return dynamic(func(f *frame) string {
			m, fresh := at.from(f)
			if fresh {
				m.text = c(f)
				m.err = f.err
			}
			return m.text
		})
	case code[*Record]:
		return dynamic(func(f *frame) *Record {
			m, fresh := at.from(f)
			if fresh {
				m.ref = c(f)
				m.err = f.err
			}
			r, _ := m.ref.(*Record)
			return r
		})
	}
	c := n.run.(boxedCode)
	out := dynamic(func(f *frame) ref.Val {
		m, fresh := at.from(f)
		if fresh {
			m.ref = c(f)
			m.err = f.err
		}
		return m.ref
	})
	if n.choices != nil && lasting(n.choices) {
		out.choices = n.choices
	}
	return out
}

// recall says where a named expression is remembered.
type recall struct {
	index  int
	steady bool
}

// from gives the memo, and whether it is to be filled. After a failure elsewhere in the expression it stays empty: what
// would be computed now could not be told from that failure.
func (r recall) from(f *frame) (m *memo, fresh bool) {
	if r.steady {
		m = &f.steady[r.index]
	} else {
		m = &f.memo[r.index]
	}
	switch {
	case f.err != nil:
		return m, false
	case m.done:
		f.err = m.err
		return m, false
	}
	m.done = true
	return m, true
}

// evaluating gives code that runs CEL's program, for expressions with constructs that have no code.
func evaluating[T any](p *program) node {
	prg, err := p.plan()
	if err != nil {
		return dynamic(func(f *frame) (out T) {
			f.fail(err)
			return out
		})
	}
	return dynamic(func(f *frame) (out T) {
		if f.err != nil {
			return out
		}
		v, err := f.evaluate(prg)
		if err != nil {
			f.err = err
			return out
		}
		out, ok := unbox[T](v)
		if !ok {
			f.err = fmt.Errorf("the expression gives %s", v.Type().TypeName())
		}
		return out
	})
}

// What expressions fail with, worded as CEL does.
var (
	errNoOverload = errors.New("no such overload")
	errOverflow   = errors.New("integer overflow")
	errDivide     = errors.New("division by zero")
	errModulus    = errors.New("modulus by zero")
	errNaN        = errors.New("NaN values cannot be ordered")
)
