package closure

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// Frame holds the state of a run: facts, memos and loop variables.
type Frame struct {
	Names  *Namespace
	Values []lang.Cell // of facts
	Locals []lang.Cell // facts of the current item
	memo   []memo      // of variables that depend on the item or on what rules write
	steady []memo      // of the other variables
	loops  []lang.Cell // variables of the active comprehensions

	// Err is the first failure of the current expression. Code runs on after a failure; anything
	// with an effect, or that may absorb a failure, checks Err first.
	Err     error
	calling bool // a host function, which may panic

	Steps, Bytes int64 // spent and built so far in this run; see spend and build
}

// memo caches the value of a variable.
type memo struct {
	done bool
	bits uint64
	text string
	ref  ref.Val
	err  error
}

// Namespace lets CEL programs, which read by name, read what code reads by slot.
type Namespace struct {
	params, gates *lang.Record
	slots         map[string]Slot
	values        []BoxedCode // of variables
}

// Clear forgets everything but the memory for memos and loops, which the next run uses again.
func (f *Frame) Clear() {
	memo, steady := f.memo[:cap(f.memo)], f.steady[:cap(f.steady)]
	clear(memo)
	clear(steady)
	clear(f.loops)
	*f = Frame{memo: memo, steady: steady, loops: f.loops}
}

// Begin prepares the frame for a stage or table.
func (f *Frame) Begin(n *Namespace) {
	f.Names = n
	f.memo = forgotten(f.memo, len(n.values))
	f.steady = forgotten(f.steady, len(n.values))
}

// Enter prepares the frame for an item of the current stage, given the item's facts.
func (f *Frame) Enter(locals []lang.Cell) {
	f.Locals = locals
	f.Forget()
}

// Forget drops memos that depend on the item or on what rules write.
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

// loop returns a loop variable's cell. The cell may move when a nested comprehension starts.
func (f *Frame) loop(slot int) *lang.Cell {
	if slot >= len(f.loops) {
		f.loops = append(f.loops, make([]lang.Cell, slot+8-len(f.loops))...)
	}
	return &f.loops[slot]
}

// fail records a failure; the first one wins.
func (f *Frame) fail(err error) {
	if f.Err == nil {
		f.Err = err
	}
}

// Failure returns and clears the failure of the last expression.
func (f *Frame) Failure() error {
	err := f.Err
	f.Err = nil
	return err
}

// missing is the failure of reading a fact that the host did not supply.
type missing string

// Error matches CEL's wording.
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
		return types.WrapErr(err), true // fails where it is read
	}
	return v, true
}

// Parent implements cel.Activation.
func (f *Frame) Parent() cel.Activation { return nil }
