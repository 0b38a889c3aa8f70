package engine

import "github.com/google/cel-go/common/types/ref"

// conditional evaluates only the branch that is taken.
func conditional(args []node) (node, bool) {
	when, ok := typed[bool](args[0])
	switch {
	case !ok:
		return node{}, false
	case isKnown(args[0], true):
		return args[1], true
	case isKnown(args[0], false):
		return args[2], true
	}
	switch args[1].run.(type) {
	case code[int64]:
		return either[int64](when, args)
	case code[float64]:
		return either[float64](when, args)
	case code[bool]:
		return either[bool](when, args)
	case code[string]:
		return either[string](when, args)
	case code[*Record]:
		return either[*Record](when, args)
	}
	return either[ref.Val](when, args)
}

func either[T any](when code[bool], args []node) (node, bool) {
	a, okA := args[1].run.(code[T])
	b, okB := args[2].run.(code[T])
	return dynamic(func(f *frame) (out T) {
		holds := when(f)
		switch {
		case f.err != nil:
			return out
		case holds:
			return a(f)
		}
		return b(f)
	}), okA && okB
}

// logical is && and ||. One side that decides the result forgives the failure of the other, whichever stands first.
func logical(decides bool) builder {
	return func(args []node) (node, bool) {
		var terms []code[bool]
		for _, n := range args {
			c, ok := typed[bool](n)
			switch {
			case !ok:
				return node{}, false
			case isKnown(n, decides):
				return n, true
			case isKnown(n, !decides):
				continue
			}
			if n.chain != nil && n.chain.decides == decides {
				terms = append(terms, n.chain.terms...)
			} else {
				terms = append(terms, c)
			}
		}
		switch len(terms) {
		case 0:
			return constant(!decides), true
		case 1:
			return dynamic(terms[0]), true
		}
		return node{run: decide(terms, decides), chain: &chain{decides: decides, terms: terms}}, true
	}
}

// chain is a node of terms joined by one of && and ||, kept so that a chain of chains becomes one.
type chain struct {
	decides bool
	terms   []code[bool]
}

// decide runs terms until one decides. When one fails, those after it may still decide.
func decide(terms []code[bool], decides bool) code[bool] {
	return func(f *frame) bool {
		if f.err != nil {
			return false
		}
		for i, term := range terms {
			v := term(f)
			if f.err != nil {
				return f.decideAfterFailure(terms[i+1:], decides)
			}
			if v == decides {
				return decides
			}
		}
		return !decides
	}
}

func (f *frame) decideAfterFailure(terms []code[bool], decides bool) bool {
	first := f.failure()
	for _, term := range terms {
		if v := term(f); f.failure() == nil && v == decides {
			return decides
		}
	}
	f.err = first
	return false
}
