package engine

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// frame is what code runs on: the values of facts, and what was computed on the way.
type frame struct {
	names  *namespace
	values []cell         // of facts
	locals []cell         // of the item at hand
	memo   []memo         // of named expressions that depend on the item, or on what rules write
	steady []memo         // of the others
	loops  []loopVariable // of comprehensions that are under way

	// err is the first failure of the expression at hand. Code goes on after a failure and gives any value;
	// what has an effect, or may forgive a failure, looks here first.
	err     error
	calling bool // a function of the host, which may panic

	steps, bytes int64 // that the run took and built so far; see spend and build
}

// memo is the value of a named expression once it was computed.
type memo struct {
	done bool
	bits uint64
	text string
	ref  ref.Val
	err  error
}

// namespace lets programs, which read by name, see what code reads by slot.
type namespace struct {
	params, gates *Record
	slots         map[string]slot
	values        []boxedCode // of named expressions
}

// frames are those that no run uses at the moment: a run allocates nothing of its own.
var frames = sync.Pool{New: func() any { return &frame{} }}

// newFrame takes a frame from the pool for the values of facts.
func newFrame(values []cell) *frame {
	f := frames.Get().(*frame)
	f.values = values
	return f
}

// free puts the frame back without anything of the host in it. A frame whose run panicked is not put back.
func (f *frame) free() {
	memo, steady := f.memo[:cap(f.memo)], f.steady[:cap(f.steady)]
	clear(memo)
	clear(steady)
	clear(f.loops)
	*f = frame{memo: memo, steady: steady, loops: f.loops}
	frames.Put(f)
}

// begin readies the frame for a stage or table.
func (f *frame) begin(n *namespace) {
	f.names = n
	f.memo = forgotten(f.memo, len(n.values))
	f.steady = forgotten(f.steady, len(n.values))
}

// enter readies the frame for an item, given by the values of its facts, of the stage it began with.
func (f *frame) enter(locals []cell) {
	f.locals = locals
	f.forget()
}

// forget drops what was computed from the item and from what rules write.
func (f *frame) forget() {
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
func (f *frame) loop(slot int) *loopVariable {
	if slot >= len(f.loops) {
		f.loops = append(f.loops, make([]loopVariable, slot+8-len(f.loops))...)
	}
	return &f.loops[slot]
}

// fail notes a failure unless there was one before.
func (f *frame) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// failure returns and forgets the failure of the expression just run.
func (f *frame) failure() error {
	err := f.err
	f.err = nil
	return err
}

// missing is the failure of an expression that reads a fact of this name which the host did not supply.
type missing string

// Error says it as CEL does.
func (m missing) Error() string { return "no such attribute(s): " + string(m) }

// ResolveName implements cel.Activation.
func (f *frame) ResolveName(name string) (any, bool) {
	s, ok := f.names.slots[name]
	if !ok {
		return nil, false
	}
	switch s.kind {
	case factSlot:
		v := f.values[s.index].val()
		return v, v != nil
	case itemSlot:
		v := f.locals[s.index].val()
		return v, v != nil
	case paramSlot:
		return f.names.params, true
	case gateSlot:
		return f.names.gates, true
	}
	v := f.names.values[s.index](f)
	if err := f.failure(); err != nil {
		return types.WrapErr(err), true // a failure where it is read
	}
	return v, true
}

// Parent implements cel.Activation.
func (f *frame) Parent() cel.Activation { return nil }
