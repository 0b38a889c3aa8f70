// Package events writes Kubernetes events beside the work that they report: nothing waits for an
// event.
package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/controllers/metric"
	"github.com/celvpa/celvpa/controllers/turns"
)

const (
	writers      = 4
	maxWaiting   = 20_000         // events, of about 1 KB each
	maxNamespace = maxWaiting / 2 // of one namespace, which leaves room for the others
	maxNote      = 1024           // bytes that API servers take
	maxTries     = 12
	firstRetry   = time.Second
	maxRetry     = 30 * time.Second
	flushTime    = 5 * time.Second // for writing what waits when the process ends
)

var dropped = metric.New.NewCounter(prometheus.CounterOpts{Name: "celvpa_dropped_events_total",
	Help: "Events dropped because the API server refused them or the queue was full."})

// Client writes events to API group events.k8s.io and to the core API.
type Client struct {
	Events typedeventsv1.EventsGetter
	Core   typedcorev1.EventsGetter
}

// NewClient returns a client of both APIs, each with the rate limit of the config. Only
// one of the two is in use.
func NewClient(config *rest.Config) (Client, error) {
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return Client{}, err
	}
	events, err := typedeventsv1.NewForConfigAndClient(config, http)
	if err != nil {
		return Client{}, err
	}
	core, err := typedcorev1.NewForConfigAndClient(config, http)
	return Client{Events: events, Core: core}, err
}

// Writer queues events and writes them with few goroutines. An eviction makes two events, so a
// large cluster makes thousands within seconds; client-go's recorder would start a goroutine for
// each, and merge those of one object that differ in their note only. It implements client-go's
// EventRecorder and the manager's Runnable.
type Writer struct {
	client     Client
	onlyCore   atomic.Bool // events.k8s.io is forbidden, and the core API is not
	scheme     *runtime.Scheme
	controller string
	clock      clock.WithTicker
	log        logr.Logger
	queue      workqueue.TypedRateLimitingInterface[*eventsv1.Event]

	mu      sync.Mutex
	waiting map[string]int // events by namespace, those between two tries included
	total   int
	last    int64 // nanoseconds, in the name of the newest event
}

// New returns a writer of the events of a component that users see, e.g. vpa-updater. Give it a
// client of its own, so that neither events wait for other requests nor those for events.
func New(client Client, scheme *runtime.Scheme, controller string, clk clock.WithTicker, log logr.Logger) *Writer {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[*eventsv1.Event](firstRetry, maxRetry)
	return &Writer{
		client: client, scheme: scheme, controller: controller, clock: clk, log: log, waiting: map[string]int{},
		queue: turns.NewRateLimitingQueue(limiter, clk, func(event *eventsv1.Event) string { return event.Namespace }),
	}
}

// Eventf queues an event about an object and, unless it is nil, a related one.
func (w *Writer) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	about, err := reference.GetReference(w.scheme, regarding)
	if err != nil {
		w.log.Error(err, "event dropped: no reference to its object", "reason", reason)
		return
	}
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: cmp.Or(about.Namespace, metav1.NamespaceDefault)},
		EventTime:           metav1.NewMicroTime(w.clock.Now()),
		ReportingController: w.controller, ReportingInstance: w.controller + "-" + hostname(),
		Action: action, Reason: reason, Regarding: *about, Note: clip(fmt.Sprintf(note, args...)), Type: eventType,
	}
	if related != nil {
		event.Related, _ = reference.GetReference(w.scheme, related) // optional
	}
	if w.reserve(event) {
		w.queue.Add(event)
	} else {
		dropped.Inc()
	}
}

// reserve names an event and counts it as waiting, unless too many wait.
func (w *Writer) reserve(event *eventsv1.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total >= maxWaiting || w.waiting[event.Namespace] >= maxNamespace {
		return false
	}
	w.total++
	w.waiting[event.Namespace]++
	w.last = max(event.EventTime.UnixNano(), w.last+1) // names are unique
	event.Name = util.GenerateEventName(event.Regarding.Name, w.last)
	return true
}

// release ends the wait of an event.
func (w *Writer) release(event *eventsv1.Event) {
	w.queue.Forget(event)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total--
	if w.waiting[event.Namespace]--; w.waiting[event.Namespace] == 0 {
		delete(w.waiting, event.Namespace)
	}
}

// clip shortens a note that API servers would refuse.
func clip(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-len(" …")], "") + " …"
}

// NeedLeaderElection is false: events are written until the process ends, also those of the end of
// the lead.
func (w *Writer) NeedLeaderElection() bool { return false }

// Start writes events until the context ends, and then up to five seconds more those in the queue.
// Events between two tries are dropped then.
func (w *Writer) Start(ctx context.Context) error {
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for w.writeNext(live) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-w.clock.After(flushTime):
		stop()
		<-done
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	dropped.Add(float64(w.total))
	return nil
}

// writeNext writes the next event, for which it waits. It returns false when there will be none.
func (w *Writer) writeNext(ctx context.Context) bool {
	event, ended := w.queue.Get()
	if ended || ctx.Err() != nil {
		return false
	}
	defer w.queue.Done(event)
	err := w.create(ctx, event)
	switch {
	case err == nil:
		w.release(event)
	case transient(err) && w.queue.NumRequeues(event) < maxTries-1:
		w.queue.AddRateLimited(event)
	default:
		w.release(event)
		dropped.Inc()
		w.log.V(1).Info("event dropped", "error", err.Error(), "namespace", event.Namespace, "object", event.Regarding.Name, "reason", event.Reason, "note", event.Note)
	}
	return true
}

// create writes an event, to the core API where that is allowed and events.k8s.io is not: some charts grant only the older of the
// two.
func (w *Writer) create(ctx context.Context, event *eventsv1.Event) error {
	var forbidden error
	if !w.onlyCore.Load() {
		_, err := w.client.Events.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			return stored(err)
		}
		forbidden = err
	}
	_, err := w.client.Core.Events(event.Namespace).Create(ctx, coreEvent(event), metav1.CreateOptions{})
	if err = stored(err); forbidden == nil {
		return err
	}
	if err != nil { // as in a namespace that is being deleted
		return forbidden
	}
	if w.onlyCore.CompareAndSwap(false, true) {
		w.log.Info("events are written to the core API from now on: this process may not create events in API group events.k8s.io", "reason", forbidden.Error())
	}
	return nil
}

// stored is nil for an event that exists already: the answer to an earlier try was lost.
func stored(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// coreEvent is the same event in the core API, with the fields that its readers look for.
func coreEvent(e *eventsv1.Event) *corev1.Event {
	at := metav1.NewTime(e.EventTime.Time)
	return &corev1.Event{
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source: corev1.EventSource{Component: e.ReportingController}, ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
		Action: e.Action, Reason: e.Reason, InvolvedObject: e.Regarding, Related: e.Related, Message: e.Note, Type: e.Type,
	}
}

// transient reports whether the API server may take the same request later.
func transient(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= http.StatusInternalServerError
}

var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})
