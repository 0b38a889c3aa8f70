package closure

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// Frame is what code runs on: the values of facts, and what was computed on the way.
type Frame struct {
	Names  *Namespace
	Values []lang.Cell // of facts
	Locals []lang.Cell // of the item at hand
	memo   []memo      // of named expressions that depend on the item, or on what rules write
	steady []memo      // of the others
	loops  []lang.Cell // of comprehensions that are under way

	// err is the first failure of the expression at hand. Code goes on after a failure and gives any value;
	// what has an effect, or may forgive a failure, looks here first.
	Err     error
	calling bool // a function of the host, which may panic

	Steps, Bytes int64 // that the run took and built so far; see spend and build
}

// memo is the value of a named expression once it was computed.
type memo struct {
	done bool
	bits uint64
	text string
	ref  ref.Val
	err  error
}

// Namespace lets programs, which read by name, see what code reads by slot.
type Namespace struct {
	params, gates *lang.Record
	slots         map[string]Slot
	values        []BoxedCode // of named expressions
}

// frames are those that no run uses at the moment: a run allocates nothing of its own.
var frames = sync.Pool{New: func() any { return &Frame{} }}

// NewFrame takes a frame from the pool for the values of facts.
func NewFrame(values []lang.Cell) *Frame {
	f := frames.Get().(*Frame)
	f.Values = values
	return f
}

// Free puts the frame back without anything of the host in it. A frame whose run panicked is not put back.
func (f *Frame) Free() {
	memo, steady := f.memo[:cap(f.memo)], f.steady[:cap(f.steady)]
	clear(memo)
	clear(steady)
	clear(f.loops)
	*f = Frame{memo: memo, steady: steady, loops: f.loops}
	frames.Put(f)
}

// Begin readies the frame for a stage or table.
func (f *Frame) Begin(n *Namespace) {
	f.Names = n
	f.memo = forgotten(f.memo, len(n.values))
	f.steady = forgotten(f.steady, len(n.values))
}

// Enter readies the frame for an item, given by the values of its facts, of the stage it began with.
func (f *Frame) Enter(locals []lang.Cell) {
	f.Locals = locals
	f.Forget()
}

// Forget drops what was computed from the item and from what rules write.
func (f *Frame) Forget() {
	for i := range f.memo {
		f.memo[i].done = false
	}
}

func forgotten(list []memo, count int) []memo {
	if count > cap(list) {
		return make([]memo, count)
	}
	list = list[:count]
	for i := range list {
		list[i].done = false
	}
	return list
}

// loop gives the variable of a comprehension. It moves when one of a comprehension inside is first asked for.
func (f *Frame) loop(slot int) *lang.Cell {
	if slot >= len(f.loops) {
		f.loops = append(f.loops, make([]lang.Cell, slot+8-len(f.loops))...)
	}
	return &f.loops[slot]
}

// fail notes a failure unless there was one before.
func (f *Frame) fail(err error) {
	if f.Err == nil {
		f.Err = err
	}
}

// Failure returns and forgets the failure of the expression just run.
func (f *Frame) Failure() error {
	err := f.Err
	f.Err = nil
	return err
}

// missing is the failure of an expression that reads a fact of this name which the host did not supply.
type missing string

// Error says it as CEL does.
func (m missing) Error() string { return "no such attribute(s): " + string(m) }

// ResolveName implements cel.Activation.
func (f *Frame) ResolveName(name string) (any, bool) {
	s, ok := f.Names.slots[name]
	if !ok {
		return nil, false
	}
	switch s.Kind {
	case FactSlot:
		v := f.Values[s.Index].Val()
		return v, v != nil
	case ItemSlot:
		v := f.Locals[s.Index].Val()
		return v, v != nil
	case ParamSlot:
		return f.Names.params, true
	case GateSlot:
		return f.Names.gates, true
	}
	v := f.Names.values[s.Index](f)
	if err := f.Failure(); err != nil {
		return types.WrapErr(err), true // a failure where it is read
	}
	return v, true
}

// Parent implements cel.Activation.
func (f *Frame) Parent() cel.Activation { return nil }
