package closure

import (
	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/lang"
)

func conditional(args []node) (node, bool) {
	when, ok := Typed[bool](args[0])
	switch {
	case !ok:
		return node{}, false
	case IsKnown(args[0], true):
		return args[1], true
	case IsKnown(args[0], false):
		return args[2], true
	}
	switch args[1].Run.(type) {
	case Code[int64]:
		return either[int64](when, args)
	case Code[float64]:
		return either[float64](when, args)
	case Code[bool]:
		return either[bool](when, args)
	case Code[string]:
		return either[string](when, args)
	case Code[*lang.Record]:
		return either[*lang.Record](when, args)
	}
	return either[ref.Val](when, args)
}

func either[T any](when Code[bool], args []node) (node, bool) {
	a, okA := args[1].Run.(Code[T])
	b, okB := args[2].Run.(Code[T])
	return dynamic(func(f *Frame) (out T) {
		holds := when(f)
		switch {
		case f.Err != nil:
			return out
		case holds:
			return a(f)
		}
		return b(f)
	}), okA && okB
}

// logical compiles && and ||. A deciding side absorbs the other's failure, in either order.
func logical(decides bool) builder {
	return func(args []node) (node, bool) {
		var terms []Code[bool]
		for _, n := range args {
			c, ok := Typed[bool](n)
			switch {
			case !ok:
				return node{}, false
			case IsKnown(n, decides):
				return n, true
			case IsKnown(n, !decides):
				continue
			}
			terms = append(terms, c)
		}
		switch len(terms) {
		case 0:
			return constant(!decides), true
		case 1:
			return dynamic(terms[0]), true
		}
		return dynamic(decide(terms, decides)), true
	}
}

// decide runs terms until one decides. Terms after a failed one may still decide.
func decide(terms []Code[bool], decides bool) Code[bool] {
	return func(f *Frame) bool {
		if f.Err != nil {
			return false
		}
		for i, term := range terms {
			v := term(f)
			if f.Err != nil {
				return f.decideAfterFailure(terms[i+1:], decides)
			}
			if v == decides {
				return decides
			}
		}
		return !decides
	}
}

func (f *Frame) decideAfterFailure(terms []Code[bool], decides bool) bool {
	first := f.Failure()
	for _, term := range terms {
		if v := term(f); f.Failure() == nil && v == decides {
			return decides
		}
	}
	f.Err = first
	return false
}
