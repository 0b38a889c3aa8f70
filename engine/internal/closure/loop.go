package closure

import (
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// loop goes through a list, with its variable in a slot of the frame.
type loop struct {
	list BoxedCode
	slot int
	kind elementKind

	weight int // steps for each element
}

// loopVariable holds what a loop is at.
type loopVariable struct {
	lang.Cell
	text string // instead, where elements are texts
}

// start evaluates and takes apart the list, and gives the number of elements: none after a failure.
func (l *loop) start(f *Frame, list *elements) (count int) {
	v := l.list(f)
	if f.Err != nil {
		return 0
	}
	ok := false
	switch l.kind {
	case intElements:
		list.ints, ok = lang.Integers(v)
		count = len(list.ints)
	case textElements:
		list.texts, ok = lang.Texts(v)
		count = len(list.texts)
	default:
		list.values, ok = lang.Values(v)
		count = len(list.values)
	}
	if !ok {
		f.fail(errNoOverload)
		return 0
	}
	if !f.spend(count*l.weight + 1) {
		return 0
	}
	f.loop(l.slot)
	return count
}

// put makes the i-th element the value of the variable.
func (l *loop) put(f *Frame, list *elements, i int) {
	to := &f.loops[l.slot]
	switch l.kind {
	case intElements:
		to.Bits = uint64(list.ints[i])
		return
	case textElements:
		to.text = list.texts[i]
		return
	case boxedElements:
		to.Ref = list.values[i]
		return
	case recordElements:
		if r, ok := list.values[i].(*lang.Record); ok {
			to.Cell.Kind, to.Ref = lang.RefCell, r
			return
		}
	case doubleElements, boolElements:
		to.Cell = lang.CellOf(list.values[i])
		if to.Cell.Kind == lang.DoubleCell && l.kind == doubleElements || to.Cell.Kind == lang.BoolCell && l.kind == boolElements {
			return
		}
	}
	f.fail(errNoOverload)
}

// add appends the i-th element of a list to another.
func (l *loop) add(to, list *elements, i, room int) {
	switch l.kind {
	case intElements:
		to.ints = appended(to.ints, list.ints[i], room)
	case textElements:
		to.texts = appended(to.texts, list.texts[i], room)
	default:
		to.values = appended(to.values, list.values[i], room)
	}
}

// variable is the node that reads the loop's variable.
func (l *loop) variable(name string) node {
	slot := l.slot
	switch l.kind {
	case intElements:
		return dynamic(func(f *Frame) int64 { return int64(f.loops[slot].Bits) })
	case doubleElements:
		return dynamic(reading(&place{home: ofLoops, slot: slot, unset: missing(name)}, asDouble))
	case boolElements:
		return dynamic(func(f *Frame) bool { return f.loops[slot].Bits != 0 })
	case textElements:
		return dynamic(func(f *Frame) string { return f.loops[slot].text })
	case recordElements:
		return node{place: &place{home: ofLoops, slot: slot, unset: missing(name)}, Run: Code[*lang.Record](func(f *Frame) *lang.Record {
			r, _ := f.loops[slot].Ref.(*lang.Record)
			return r
		})}
	}
	return dynamic(func(f *Frame) ref.Val { return f.loops[slot].Ref })
}

// decided is exists and all: one element that decides is enough, whatever fails elsewhere.
func (l *loop) decided(holds Code[bool], decides bool) Code[bool] {
	return func(f *Frame) bool {
		var list elements
		count := l.start(f, &list)
		if f.Err != nil {
			return !decides
		}
		var first error
		for i := range count {
			l.put(f, &list, i)
			v := holds(f)
			switch err := f.Failure(); {
			case err == nil && v == decides:
				return decides
			case first == nil:
				first = err
			}
		}
		f.Err = first
		return !decides
	}
}

// one is exists_one. Of failures the last is told.
func (l *loop) one(holds Code[bool]) Code[bool] {
	return func(f *Frame) bool {
		var list elements
		count := l.start(f, &list)
		if f.Err != nil {
			return false
		}
		found := 0
		var last error
		for i := range count {
			l.put(f, &list, i)
			v := holds(f)
			if err := f.Failure(); err != nil {
				last = err
			} else if v {
				found++
			}
		}
		f.Err = last
		return found == 1
	}
}

// filtered makes a list of the elements for which a condition holds. Of failures the last is told.
func (l *loop) filtered(holds Code[bool]) BoxedCode {
	return func(f *Frame) ref.Val {
		var list elements
		count := l.start(f, &list)
		if f.Err != nil {
			return nil
		}
		var out elements
		var last error
		for i := range count {
			l.put(f, &list, i)
			v := holds(f)
			if err := f.Failure(); err != nil {
				last = err
			} else if v {
				l.add(&out, &list, i, count-i)
			}
		}
		if last != nil {
			f.Err = last
			return nil
		}
		return out.list(f, l.kind)
	}
}

// mapped implements maker. A condition that fails is told rather than an earlier failure, a value that fails is not.
func (m makerOf[E]) mapped(l *loop, when Code[bool]) BoxedCode {
	value := m[0]
	return func(f *Frame) ref.Val {
		var list elements
		count := l.start(f, &list)
		if f.Err != nil {
			return nil
		}
		var out []E
		var failed error
		for i := range count {
			l.put(f, &list, i)
			holds := when == nil || when(f)
			if err := f.Failure(); err != nil {
				failed = err
			} else if holds && failed == nil {
				out = appended(out, value(f), count-i)
				failed = f.Failure()
			}
		}
		if failed != nil {
			f.Err = failed
			return nil
		}
		return made(f, out)
	}
}
