// Package turns lets namespaces take turns, so that one with much to do delays no other: Order for work that is done cycle by
// cycle, and Queue for work that is done as it comes.
package turns

import (
	"cmp"
	"maps"
	"slices"
)

// Patience is after how many intervals work that waits goes first.
const Patience = 3

// maxRemembered is how many namespaces are remembered that have nothing to do.
const maxRemembered = 10_000

// Turns remembers which namespaces were served, from one cycle to the next. The zero value is ready for use. It is not safe for
// concurrent use.
type Turns struct {
	last   map[string]uint64 // the number of the last turn; 0 = none
	number uint64
}

// Served records that a namespace had a turn.
func (t *Turns) Served(namespace string) {
	if t.last == nil {
		t.last = map[string]uint64{}
	}
	t.number++
	t.last[namespace] = t.number
}

// place is where an item of a list belongs.
type place[T any] struct {
	item      T
	namespace string
	urgency   int
	round     int // how many items of the namespace go before
}

// Order sorts a list so that one item of each namespace comes first, then a second one of each that has one, and so on. Within a
// namespace the most urgent come first, those of urgency 0; among namespaces, too, and then those that were served longest ago. What
// is still equal keeps its order.
func Order[T any](t *Turns, list []T, of func(T) (namespace string, urgency int)) {
	places, rounds := make([]place[T], len(list)), map[string]int{}
	for i, item := range list {
		places[i].item = item
		places[i].namespace, places[i].urgency = of(item)
	}
	slices.SortStableFunc(places, func(a, b place[T]) int { return cmp.Compare(a.urgency, b.urgency) })
	for i := range places {
		places[i].round = rounds[places[i].namespace]
		rounds[places[i].namespace]++
	}
	slices.SortStableFunc(places, func(a, b place[T]) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.urgency, b.urgency), cmp.Compare(t.last[a.namespace], t.last[b.namespace]))
	})
	for i := range places {
		list[i] = places[i].item
	}
	if len(t.last) > maxRemembered {
		maps.DeleteFunc(t.last, func(namespace string, _ uint64) bool { return rounds[namespace] == 0 })
	}
}
