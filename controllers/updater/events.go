package updater

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/clock"
)

const (
	eventWriters   = 4
	maxEvents      = 20_000 // that wait to be written, of less than 1 KB each
	maxEventNote   = 1024   // the longest note that API servers take, in bytes
	maxEventTries  = 12
	maxEventDelay  = 30 * time.Second // between two tries
	eventFlushTime = 5 * time.Second  // how long those that wait are written yet when the process ends
)

// Events writes events of the updater, beside what it does to pods: nothing waits for an event. An eviction makes two, so a large
// cluster makes thousands within seconds. client-go's own recorder starts a goroutine for each of them, which takes some 6 KB
// while it waits, and drops what comes too fast; this one has a queue and few writers, and namespaces take turns in it. Give it a
// client of its own, or events wait for evictions and evictions for events. It implements client-go's EventRecorder and the
// manager's Runnable.
type Events struct {
	Client     typedeventsv1.EventsV1Interface
	Scheme     *runtime.Scheme
	Controller string // the component that users see, e.g. vpa-updater
	Clock      clock.Clock
	Log        logr.Logger

	mu     sync.Mutex
	queue  eventQueue
	last   int64         // nanoseconds, in the name of the last one
	wake   chan struct{} // of capacity 1: there is something in the queue, or nothing comes any more
	closed bool
}

type queuedEvent struct {
	regarding                  corev1.ObjectReference
	related                    *corev1.ObjectReference
	kind, reason, action, note string
	at                         time.Time
	id                         int64
	tries                      int
}

// Eventf puts an event into the queue, about an object and maybe another one.
func (e *Events) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	about, err := reference.GetReference(e.Scheme, regarding)
	if err != nil {
		e.Log.Error(err, "an event is left out: its object cannot be named", "reason", reason)
		return
	}
	q := queuedEvent{regarding: *about, kind: eventType, reason: reason, action: action, note: clip(fmt.Sprintf(note, args...)), at: e.Clock.Now()}
	if related != nil {
		q.related, _ = reference.GetReference(e.Scheme, related) // good to have
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	q.id = max(q.at.UnixNano(), e.last+1) // no two have one name
	e.last = q.id
	if !e.queue.put(q) {
		droppedEvents.Inc()
	}
	e.rouse()
}

// rouse wakes a writer. e.mu is held.
func (e *Events) rouse() {
	if e.wake == nil {
		e.wake = make(chan struct{}, 1)
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// clip shortens what API servers would refuse.
func clip(note string) string {
	if len(note) <= maxEventNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxEventNote-len(" …")], "") + " …"
}

// NeedLeaderElection lets events be written for as long as the process runs: the last ones come with the end of the lead.
func (e *Events) NeedLeaderElection() bool { return false }

// Start writes events until the context ends, and for some seconds more those that wait then.
func (e *Events) Start(ctx context.Context) error {
	e.mu.Lock()
	e.rouse()
	wake := e.wake
	e.mu.Unlock()
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var writers sync.WaitGroup
	for range eventWriters {
		writers.Go(func() {
			for {
				switch q, ok, wait, over := e.next(); {
				case ok:
					e.write(live, q)
				case over:
					return
				default:
					var ready <-chan time.Time
					if wait > 0 {
						ready = e.Clock.After(wait)
					}
					select {
					case <-wake:
					case <-ready:
					case <-live.Done(): // one that was woken may have ended without waking the next
					}
				}
				if live.Err() != nil {
					return
				}
			}
		})
	}
	<-ctx.Done()
	e.mu.Lock()
	e.closed = true
	e.rouse()
	e.mu.Unlock()
	done := make(chan struct{})
	go func() {
		writers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-e.Clock.After(eventFlushTime):
		stop()
		<-done
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	droppedEvents.Add(float64(e.queue.size))
	return nil
}

// next takes the event whose turn it is. Without one, wait is how long all that there are wait for another try, 0 where there are
// none; over tells that no more are waited for. It wakes the next writer for the next event.
func (e *Events) next() (q queuedEvent, ok bool, wait time.Duration, over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Clock.Now()
	q, ok, wait = e.queue.take(now)
	over = !ok && e.queue.size == 0 && e.closed
	if over || ok && e.queue.ready(now) {
		e.rouse()
	}
	return q, ok, wait, over
}

// write stores an event. What the API server refuses is given up, and so is what it does not take after many tries. No writer
// waits for the next try: the events of other namespaces may be taken meanwhile.
func (e *Events) write(ctx context.Context, q queuedEvent) {
	event := q.event(e.Controller)
	_, err := e.Client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil || apierrors.IsAlreadyExists(err) { // the answer to the last try was lost
		e.queue.taken(event.Namespace)
		return
	}
	if q.tries++; passing(err) && q.tries < maxEventTries && ctx.Err() == nil {
		e.queue.again(q, e.Clock.Now().Add(min(time.Second<<(q.tries-1), maxEventDelay)))
		return
	}
	droppedEvents.Inc()
	e.Log.V(1).Info("an event is not written", "error", err.Error(), "namespace", event.Namespace, "object", event.Regarding.Name, "reason", event.Reason, "note", event.Note)
}

// passing reports whether the same request may be taken later.
func passing(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= http.StatusInternalServerError
}

// namespace is where the event is stored.
func (q *queuedEvent) namespace() string {
	return cmp.Or(q.regarding.Namespace, metav1.NamespaceDefault)
}

func (q *queuedEvent) event(controller string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: q.namespace(), Name: util.GenerateEventName(q.regarding.Name, q.id)},
		EventTime:           metav1.NewMicroTime(q.at),
		ReportingController: controller, ReportingInstance: controller + "-" + hostname(),
		Action: q.action, Reason: q.reason, Regarding: q.regarding, Related: q.related, Note: q.note, Type: q.kind,
	}
}

var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})
