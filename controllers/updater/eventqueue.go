package updater

import (
	"slices"
	"time"
)

// eventQueue holds the events that wait to be written. Namespaces take turns, so that one with thousands of failing pods, or one
// that takes no events, delays nobody else. The zero value is ready for use.
type eventQueue struct {
	lanes map[string]*eventLane // by namespace, those with events only
	turns []*eventLane          // the same, the one whose turn it is first
	size  int
}

// eventLane is the events of one namespace, oldest first.
type eventLane struct {
	namespace string
	events    []queuedEvent
	until     time.Time // before which none of them is tried
}

// put adds an event. It reports false when one was lost for it, because there are too many: the newest of the namespace that has
// most.
func (q *eventQueue) put(event queuedEvent) (kept bool) {
	kept = true
	if q.size >= maxEvents {
		longest := slices.MaxFunc(q.turns, func(a, b *eventLane) int { return len(a.events) - len(b.events) })
		own := q.lanes[event.namespace()]
		if own != nil && len(own.events) >= len(longest.events) {
			return false
		}
		last := len(longest.events) - 1
		longest.events[last] = queuedEvent{}
		longest.events = longest.events[:last]
		q.size--
		q.dropEmpty(longest)
		kept = false
	}
	lane := q.lane(event.namespace())
	lane.events = append(lane.events, event)
	q.size++
	return kept
}

// again puts an event back that was not taken; nothing of its namespace is tried before a time.
func (q *eventQueue) again(event queuedEvent, until time.Time) {
	lane := q.lane(event.namespace())
	lane.events = slices.Insert(lane.events, 0, event)
	q.size++
	if until.After(lane.until) {
		lane.until = until
	}
}

// taken notes that a namespace takes events.
func (q *eventQueue) taken(namespace string) {
	if lane := q.lanes[namespace]; lane != nil {
		lane.until = time.Time{}
	}
}

// take removes the event whose turn it is. Without one, wait is the time until there is; 0 where there are none at all.
func (q *eventQueue) take(now time.Time) (event queuedEvent, ok bool, wait time.Duration) {
	for i, lane := range q.turns {
		if left := lane.until.Sub(now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		event = lane.events[0]
		lane.events[0] = queuedEvent{}
		lane.events = lane.events[1:]
		q.size--
		q.turns = append(slices.Delete(q.turns, i, i+1), lane)
		q.dropEmpty(lane)
		return event, true, 0
	}
	return queuedEvent{}, false, wait
}

// ready reports whether an event may be tried now.
func (q *eventQueue) ready(now time.Time) bool {
	return slices.ContainsFunc(q.turns, func(lane *eventLane) bool { return !lane.until.After(now) })
}

// lane finds or makes the lane of a namespace.
func (q *eventQueue) lane(namespace string) *eventLane {
	lane := q.lanes[namespace]
	if lane == nil {
		lane = &eventLane{namespace: namespace}
		if q.lanes == nil {
			q.lanes = map[string]*eventLane{}
		}
		q.lanes[namespace] = lane
		q.turns = append(q.turns, lane)
	}
	return lane
}

// dropEmpty forgets a lane without events.
func (q *eventQueue) dropEmpty(lane *eventLane) {
	if len(lane.events) > 0 {
		return
	}
	delete(q.lanes, lane.namespace)
	q.turns = slices.DeleteFunc(q.turns, func(one *eventLane) bool { return one == lane })
}
