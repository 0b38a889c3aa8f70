// Package turns lets namespaces take turns, so that one with much to do delays no other: Order for work that is done cycle by
// cycle, and Queue for work that is done as it comes.
package turns

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
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

// entry is an item of a list with what orders it.
type entry[T any] struct {
	item      T
	namespace string
	urgency   int
	round     int // how many items of the namespace go before
}

// Order sorts a list so that one item of each namespace comes first, then a second one of each that has one, and so on. Within a
// namespace the most urgent come first, those of urgency 0; among namespaces, too, and then those that were served longest ago. What
// is still equal keeps its order.
func Order[T any](t *Turns, list []T, key func(T) (namespace string, urgency int)) {
	entries, rounds := make([]entry[T], len(list)), map[string]int{}
	for i, item := range list {
		entries[i].item = item
		entries[i].namespace, entries[i].urgency = key(item)
	}
	slices.SortStableFunc(entries, func(a, b entry[T]) int { return cmp.Compare(a.urgency, b.urgency) })
	for i := range entries {
		entries[i].round = rounds[entries[i].namespace]
		rounds[entries[i].namespace]++
	}
	slices.SortStableFunc(entries, func(a, b entry[T]) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.urgency, b.urgency), cmp.Compare(t.last[a.namespace], t.last[b.namespace]))
	})
	for i := range entries {
		list[i] = entries[i].item
	}
	if len(t.last) > maxRemembered {
		maps.DeleteFunc(t.last, func(namespace string, _ uint64) bool { return rounds[namespace] == 0 })
	}
}

// Queue holds items of which the namespaces take turns; within a namespace the first in is the first out. It implements
// workqueue.Queue.
type Queue[T comparable] struct {
	namespace func(T) string
	waiting   map[string][]T // by namespace, none of them empty
	next      []string       // namespaces in the order of their turns
	items     int
}

// NewQueue returns an empty queue.
func NewQueue[T comparable](namespace func(T) string) *Queue[T] {
	return &Queue[T]{namespace: namespace, waiting: map[string][]T{}}
}

// NewRateLimitingQueue returns a work queue of which the namespaces take turns.
func NewRateLimitingQueue[T comparable](limiter workqueue.TypedRateLimiter[T], clk clock.WithTicker, namespace func(T) string) workqueue.TypedRateLimitingInterface[T] {
	ready := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Clock: clk, Queue: NewQueue(namespace)})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Clock: clk, Queue: ready})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{Clock: clk, DelayingQueue: delaying})
}

// Touch does nothing: an item that is added again keeps its place.
func (q *Queue[T]) Touch(T) {}

// Push adds an item.
func (q *Queue[T]) Push(item T) {
	namespace := q.namespace(item)
	if len(q.waiting[namespace]) == 0 {
		q.next = append(q.next, namespace)
	}
	q.waiting[namespace] = append(q.waiting[namespace], item)
	q.items++
}

// Len returns the number of items.
func (q *Queue[T]) Len() int { return q.items }

// Pop takes the next item. The queue must not be empty.
func (q *Queue[T]) Pop() T {
	var none T
	namespace := q.next[0]
	q.next[0], q.next = "", q.next[1:] // keeps no name in memory
	waiting := q.waiting[namespace]
	item := waiting[0]
	waiting[0], waiting = none, waiting[1:]
	if len(waiting) > 0 {
		q.waiting[namespace], q.next = waiting, append(q.next, namespace)
	} else {
		delete(q.waiting, namespace)
	}
	q.items--
	return item
}
