package closure

import (
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

// loop iterates over a list, with its variable in a slot of the frame.
type loop struct {
	list   BoxedCode
	slot   int
	weight int // steps per element
}

// start evaluates the list; it returns nil on failure.
func (l *loop) start(f *Frame) []ref.Val {
	v := l.list(f)
	if f.Err != nil {
		return nil
	}
	list, ok := lang.Values(v)
	if !ok {
		f.fail(errNoOverload)
		return nil
	}
	if !f.spend(len(list)*l.weight + 1) {
		return nil
	}
	f.loop(l.slot)
	return list
}

// put assigns an element to the loop variable.
func (l *loop) put(f *Frame, element ref.Val) { f.loops[l.slot] = lang.CellOf(element) }

// decided compiles exists and all: an element that decides absorbs failures of the others;
// otherwise the first failure wins.
func (l *loop) decided(holds Code[bool], decides bool) Code[bool] {
	return func(f *Frame) bool {
		list := l.start(f)
		if f.Err != nil {
			return !decides
		}
		var first error
		for _, element := range list {
			l.put(f, element)
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

// one compiles exists_one. The last failure wins.
func (l *loop) one(holds Code[bool]) Code[bool] {
	return func(f *Frame) bool {
		list := l.start(f)
		if f.Err != nil {
			return false
		}
		found := 0
		var last error
		for _, element := range list {
			l.put(f, element)
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

// mapped compiles map, with an optional condition, and filter, whose value is the element. A failed condition replaces an earlier failure;
// a failed value does not.
func (l *loop) mapped(value BoxedCode, when Code[bool]) BoxedCode {
	return func(f *Frame) ref.Val {
		list := l.start(f)
		if f.Err != nil {
			return nil
		}
		out := make([]ref.Val, 0, len(list))
		var failed error
		for _, element := range list {
			l.put(f, element)
			holds := when == nil || when(f)
			if err := f.Failure(); err != nil {
				failed = err
			} else if holds && failed == nil {
				out = append(out, value(f))
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
