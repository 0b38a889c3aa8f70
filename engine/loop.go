package engine

import "github.com/google/cel-go/common/types/ref"

// loop goes through a list, with its variable in a slot of the frame.
type loop struct {
	list boxedCode
	slot int
	kind elementKind

	weight int // steps for each element
}

// loopVariable holds what a loop is at.
type loopVariable struct {
	cell
	text string // instead, where elements are texts
}

// start evaluates and takes apart the list, and gives the number of elements: none after a failure.
func (l *loop) start(f *frame, list *elements) (count int) {
	v := l.list(f)
	if f.err != nil {
		return 0
	}
	ok := false
	switch l.kind {
	case intElements:
		list.ints, ok = integers(v)
		count = len(list.ints)
	case textElements:
		list.texts, ok = texts(v)
		count = len(list.texts)
	default:
		list.values, ok = values(v)
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
func (l *loop) put(f *frame, list *elements, i int) {
	to := &f.loops[l.slot]
	switch l.kind {
	case intElements:
		to.bits = uint64(list.ints[i])
		return
	case textElements:
		to.text = list.texts[i]
		return
	case boxedElements:
		to.ref = list.values[i]
		return
	case recordElements:
		if r, ok := list.values[i].(*Record); ok {
			to.cell.kind, to.ref = refCell, r
			return
		}
	case doubleElements, boolElements:
		to.cell = cellOf(list.values[i])
		if to.cell.kind == doubleCell && l.kind == doubleElements || to.cell.kind == boolCell && l.kind == boolElements {
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
		return dynamic(func(f *frame) int64 { return int64(f.loops[slot].bits) })
	case doubleElements:
		return dynamic((&place{home: ofLoops, slot: slot, unset: missing(name)}).double)
	case boolElements:
		return dynamic(func(f *frame) bool { return f.loops[slot].bits != 0 })
	case textElements:
		return dynamic(func(f *frame) string { return f.loops[slot].text })
	case recordElements:
		return node{place: &place{home: ofLoops, slot: slot, unset: missing(name)}, run: code[*Record](func(f *frame) *Record {
			r, _ := f.loops[slot].ref.(*Record)
			return r
		})}
	}
	return dynamic(func(f *frame) ref.Val { return f.loops[slot].ref })
}

// decided is exists and all: one element that decides is enough, whatever fails elsewhere.
func (l *loop) decided(holds code[bool], decides bool) code[bool] {
	return func(f *frame) bool {
		var list elements
		count := l.start(f, &list)
		if f.err != nil {
			return !decides
		}
		var first error
		for i := range count {
			l.put(f, &list, i)
			v := holds(f)
			switch err := f.failure(); {
			case err == nil && v == decides:
				return decides
			case first == nil:
				first = err
			}
		}
		f.err = first
		return !decides
	}
}

// one is exists_one. Of failures the last is told.
func (l *loop) one(holds code[bool]) code[bool] {
	return func(f *frame) bool {
		var list elements
		count := l.start(f, &list)
		if f.err != nil {
			return false
		}
		found := 0
		var last error
		for i := range count {
			l.put(f, &list, i)
			v := holds(f)
			if err := f.failure(); err != nil {
				last = err
			} else if v {
				found++
			}
		}
		f.err = last
		return found == 1
	}
}

// filtered makes a list of the elements for which a condition holds. Of failures the last is told.
func (l *loop) filtered(holds code[bool]) boxedCode {
	return func(f *frame) ref.Val {
		var list elements
		count := l.start(f, &list)
		if f.err != nil {
			return nil
		}
		var out elements
		var last error
		for i := range count {
			l.put(f, &list, i)
			v := holds(f)
			if err := f.failure(); err != nil {
				last = err
			} else if v {
				l.add(&out, &list, i, count-i)
			}
		}
		if last != nil {
			f.err = last
			return nil
		}
		return out.list(f, l.kind)
	}
}

// mapped implements maker. A condition that fails is told rather than an earlier failure, a value that fails is not.
func (m makerOf[E]) mapped(l *loop, when code[bool]) boxedCode {
	value := m[0]
	return func(f *frame) ref.Val {
		var list elements
		count := l.start(f, &list)
		if f.err != nil {
			return nil
		}
		var out []E
		var failed error
		for i := range count {
			l.put(f, &list, i)
			holds := when == nil || when(f)
			if err := f.failure(); err != nil {
				failed = err
			} else if holds && failed == nil {
				out = appended(out, value(f), count-i)
				failed = f.failure()
			}
		}
		if failed != nil {
			f.err = failed
			return nil
		}
		return made(f, out)
	}
}
