package updater

import (
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
	eventFlushTime = 5 * time.Second // how long those that wait are written yet when the process ends
)

// Events writes events of the updater, beside what it does to pods: nothing waits for an event. An eviction makes two, so a large
// cluster makes thousands within seconds. client-go's own recorder starts a goroutine for each of them, which takes some 6 KB
// while it waits, and drops what comes too fast; this one has a queue and few writers. Give it a client of its own, or events
// wait for evictions and evictions for events. It implements client-go's EventRecorder and the manager's Runnable.
type Events struct {
	Client     typedeventsv1.EventsV1Interface
	Scheme     *runtime.Scheme
	Controller string // the component that users see, e.g. vpa-updater
	Clock      clock.Clock
	Log        logr.Logger

	mu     sync.Mutex
	queue  []queuedEvent
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
	if len(e.queue) >= maxEvents {
		droppedEvents.Inc()
		return
	}
	q.id = max(q.at.UnixNano(), e.last+1) // no two have one name
	e.last = q.id
	e.queue = append(e.queue, q)
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
				switch q, ok, over := e.next(); {
				case ok:
					e.write(live, &q)
				case over:
					return
				default:
					select {
					case <-wake:
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
	return nil
}

// next takes the oldest event; over tells that none is left and none is waited for. It wakes the next writer for the next one.
func (e *Events) next() (q queuedEvent, ok, over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) > 0 {
		q, ok = e.queue[0], true
		e.queue[0] = queuedEvent{}
		e.queue = e.queue[1:]
	}
	if len(e.queue) > 0 || e.closed {
		e.rouse()
	} else {
		e.queue = nil
	}
	return q, ok, !ok && e.closed
}

// write stores an event. What the API server refuses is given up, and so is what it does not take after many tries.
func (e *Events) write(ctx context.Context, q *queuedEvent) {
	event := q.event(e.Controller)
	delay := time.Second
	for try := 1; ; try++ {
		_, err := e.Client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) { // the answer to the last try was lost
			return
		}
		if !passing(err) || try == maxEventTries || ctx.Err() != nil {
			droppedEvents.Inc()
			e.Log.V(1).Info("an event is not written", "error", err.Error(), "namespace", event.Namespace, "object", event.Regarding.Name, "reason", event.Reason, "note", event.Note)
			return
		}
		select {
		case <-ctx.Done():
		case <-e.Clock.After(delay):
		}
		delay = min(2*delay, 30*time.Second)
	}
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

func (q *queuedEvent) event(controller string) *eventsv1.Event {
	namespace := q.regarding.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: util.GenerateEventName(q.regarding.Name, q.id)},
		EventTime:           metav1.NewMicroTime(q.at),
		ReportingController: controller, ReportingInstance: controller + "-" + hostname(),
		Action: q.action, Reason: q.reason, Regarding: q.regarding, Related: q.related, Note: q.note, Type: q.kind,
	}
}

var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})
