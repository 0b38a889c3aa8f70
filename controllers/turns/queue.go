package turns

import (
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

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
