package watcher

import (
	"reflect"
	"slices"
	"time"
)

// line is what something was like over time.
type line[T any] struct{ states []state[T] }

// state holds from a moment until the next state.
type state[T any] struct {
	from time.Time
	is   *T // nil = it does not exist
}

// set says what it is like from a moment on; moments ascend.
func (l *line[T]) set(at time.Time, is *T) {
	if n := len(l.states); n > 0 && reflect.DeepEqual(l.states[n-1].is, is) {
		return
	}
	l.states = append(l.states, state[T]{at, is})
}

// at is what it was like at a moment; nil = it did not exist.
func (l *line[T]) at(moment time.Time) *T {
	if l == nil {
		return nil
	}
	n, exact := slices.BinarySearchFunc(l.states, moment, func(s state[T], at time.Time) int { return s.from.Compare(at) })
	if exact {
		return l.states[n].is
	}
	if n == 0 {
		return nil
	}
	return l.states[n-1].is
}

// changes appends the moments in (from, to] at which it changed.
func (l *line[T]) changes(out []time.Time, from, to time.Time) []time.Time {
	if l == nil {
		return out
	}
	for _, s := range l.states {
		if s.from.After(from) && !s.from.After(to) {
			out = append(out, s.from)
		}
	}
	return out
}

// lines are those of many things, by key.
type lines[K comparable, T any] map[K]*line[T]

func (l lines[K, T]) set(key K, at time.Time, is *T) {
	known := l[key]
	if known == nil {
		known = &line[T]{}
		l[key] = known
	}
	known.set(at, is)
}
