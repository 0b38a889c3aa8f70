package events

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/conformance/hang"
)

// sink is a writer whose API server gives the answers of a function.
func sink(answer func(*eventsv1.Event) error) (*Writer, *testclock.FakeClock) {
	set := fake.NewClientset()
	set.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		event, ok := action.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
		if !ok {
			return true, nil, apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("RBAC"))
		}
		return true, event, answer(event)
	})
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	return New(Client{Events: set.EventsV1(), Core: set.CoreV1()}, scheme.Scheme, "vpa-updater", clk, logr.Discard()), clk
}

func podIn(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}}
}

func aPod(name string) *corev1.Pod { return podIn("ns", name) }

// started runs a writer until the returned function is called, which waits for its end.
func started(t *testing.T, w *Writer) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Start(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// stepUntil moves the clock until a channel delivers.
func stepUntil[T any](t *testing.T, clk *testclock.FakeClock, by time.Duration, from <-chan T) (got T) {
	hang.Until(t, func() bool {
		select {
		case got = <-from:
			return true
		default:
			clk.Step(by)
			return false
		}
	}, "nothing came, however far the clock went")
	return got
}

func TestNoEventIsDroppedWhenThousandsComeAtOnce(t *testing.T) {
	var mu sync.Mutex
	names, notes := map[string]bool{}, map[string]bool{}
	w, _ := sink(func(event *eventsv1.Event) error {
		mu.Lock()
		defer mu.Unlock()
		names[event.Name], notes[event.Note] = true, true
		return nil
	})
	var senders sync.WaitGroup
	for n := range 10 {
		senders.Go(func() {
			for i := range 200 {
				w.Eventf(aPod("web"), aPod("other"), corev1.EventTypeNormal, "EvictedByVPA", "Evict", "%d-%d", n, i)
			}
		})
	}
	senders.Wait()
	started(t, w)() // the end writes what waits
	require.Len(t, notes, 2000)
	require.Len(t, names, 2000, "names are unique")
	require.Zero(t, w.total)
	require.Empty(t, w.waiting)
}

func TestEventsHaveUpstreamsForm(t *testing.T) {
	var got *eventsv1.Event
	w, clk := sink(func(event *eventsv1.Event) error { got = event; return nil })
	w.Eventf(aPod("web"), aPod("other"), corev1.EventTypeWarning, "Reason", "Act", "%s", strings.Repeat("ü", 600))
	started(t, w)()
	require.Equal(t, "Pod ns/web v1", got.Regarding.Kind+" "+got.Regarding.Namespace+"/"+got.Regarding.Name+" "+got.Regarding.APIVersion)
	require.Equal(t, "other", got.Related.Name)
	require.Equal(t, "ns", got.Namespace)
	require.Equal(t, "vpa-updater", got.ReportingController)
	require.Equal(t, []string{"Warning", "Reason", "Act"}, []string{got.Type, got.Reason, got.Action})
	require.True(t, got.EventTime.Time.Equal(clk.Now()))
	require.LessOrEqual(t, len(got.Note), maxNote)
	require.True(t, strings.HasSuffix(got.Note, "ü …"))
}

func TestEventIsWrittenWhenTheAPIServerIsBack(t *testing.T) {
	tries := make(chan int, 10)
	n := 0
	w, clk := sink(func(*eventsv1.Event) error {
		n++
		tries <- n
		if n < 3 {
			return errors.New("connection refused")
		}
		return nil
	})
	w.Eventf(aPod("web"), nil, corev1.EventTypeNormal, "R", "A", "note")
	stop := started(t, w)
	for want := 1; want <= 3; want++ {
		require.Equal(t, want, stepUntil(t, clk, maxRetry, tries))
	}
	stop()
	require.Zero(t, w.total)
}

func TestRefusedEventIsGivenUp(t *testing.T) {
	before := testutil.ToFloat64(dropped)
	w, _ := sink(func(*eventsv1.Event) error {
		return apierrors.NewForbidden(eventsv1.Resource("events"), "", errors.New("the namespace is being terminated"))
	})
	w.Eventf(aPod("web"), nil, corev1.EventTypeNormal, "R", "A", "note")
	started(t, w)()
	require.Equal(t, before+1, testutil.ToFloat64(dropped))
	require.Zero(t, w.total)
}

func TestEventThatFailsTooOftenIsGivenUp(t *testing.T) {
	before := testutil.ToFloat64(dropped)
	tries := make(chan bool, maxTries+1)
	w, clk := sink(func(*eventsv1.Event) error {
		tries <- true
		return errors.New("connection refused")
	})
	w.Eventf(aPod("web"), nil, corev1.EventTypeNormal, "R", "A", "note")
	stop := started(t, w)
	for range maxTries {
		stepUntil(t, clk, maxRetry, tries)
	}
	stop()
	require.Equal(t, before+1, testutil.ToFloat64(dropped))
	require.Empty(t, tries)
}

func TestWaitingEventsAreBounded(t *testing.T) {
	before := testutil.ToFloat64(dropped)
	w, _ := sink(func(*eventsv1.Event) error { return nil })
	for i := range maxNamespace {
		w.Eventf(podIn("one", "web"), nil, corev1.EventTypeNormal, "R", "A", "%d", i)
		w.Eventf(podIn("two", "web"), nil, corev1.EventTypeNormal, "R", "A", "%d", i)
	}
	require.Equal(t, before, testutil.ToFloat64(dropped))
	w.Eventf(podIn("three", "web"), nil, corev1.EventTypeNormal, "R", "A", "note")
	require.Equal(t, before+1, testutil.ToFloat64(dropped))
	require.Equal(t, maxWaiting, w.total)
}

// Thousands of failing pods of one tenant leave room for the events of another.
func TestEventsOfOneTenantDoNotCrowdOutOthers(t *testing.T) {
	lost := testutil.ToFloat64(dropped)
	var mu sync.Mutex
	written, before := map[string]int{}, 0
	w, _ := sink(func(event *eventsv1.Event) error {
		mu.Lock()
		defer mu.Unlock()
		written[event.Namespace]++
		if event.Namespace == "quiet" {
			before = written["loud"]
		}
		return nil
	})
	for i := range maxNamespace + 100 {
		w.Eventf(podIn("loud", "web"), nil, corev1.EventTypeWarning, "R", "A", "%d", i)
	}
	w.Eventf(podIn("quiet", "web"), nil, corev1.EventTypeNormal, "R", "A", "note")
	require.Equal(t, lost+100, testutil.ToFloat64(dropped), "all of them of the loud one")
	started(t, w)()
	require.Equal(t, map[string]int{"loud": maxNamespace, "quiet": 1}, written)
	require.Less(t, before, maxNamespace/10, "it does not wait behind the loud ones")
}

// A namespace that takes no events, as with a webhook that does not answer, blocks no writer
// between two tries.
func TestNamespaceThatTakesNoEventsDelaysNoOthers(t *testing.T) {
	written := make(chan string, 10)
	w, _ := sink(func(event *eventsv1.Event) error {
		if event.Namespace == "broken" {
			return errors.New("the webhook of this tenant does not answer")
		}
		written <- event.Regarding.Name
		return nil
	})
	for range 10 * writers {
		w.Eventf(podIn("broken", "web"), nil, corev1.EventTypeWarning, "R", "A", "note")
	}
	stop := started(t, w)
	for i := range 10 { // nobody steps the clock: those of the other wait for their next try all the time
		w.Eventf(podIn("well", fmt.Sprint(i)), nil, corev1.EventTypeNormal, "R", "A", "note")
		require.Equal(t, fmt.Sprint(i), <-written)
	}
	stop()
}

func TestProcessDoesNotWaitForAnAPIServerThatHangs(t *testing.T) {
	before := testutil.ToFloat64(dropped)
	asked, answer := make(chan bool), make(chan bool)
	w, clk := sink(func(*eventsv1.Event) error {
		asked <- true
		<-answer
		return context.Canceled
	})
	w.Eventf(aPod("web"), nil, corev1.EventTypeNormal, "R", "A", "note")
	stop := started(t, w)
	<-asked
	ended := make(chan bool)
	go func() {
		stop()
		close(ended)
	}()
	flushed := clk.After(2 * flushTime)
	go func() { // the request ends with its context, which the clock ends
		<-flushed
		close(answer)
	}()
	stepUntil(t, clk, flushTime, ended)
	require.Equal(t, before+1, testutil.ToFloat64(dropped))
}

// both is a writer whose API server answers for events.k8s.io and for the core API, and counts what it was asked.
func both(t *testing.T, group, core func(namespace string) error) (w *Writer, asked map[string]int, written *[]*corev1.Event, log *[]string) {
	set, asked, written, log := fake.NewClientset(), map[string]int{}, &[]*corev1.Event{}, &[]string{}
	set.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		version, answer := action.GetResource().Group, group
		if version == "" {
			version, answer = "core", core
		}
		asked[version]++
		object, err := action.(clienttesting.CreateAction).GetObject(), answer(action.GetNamespace())
		if event, ok := object.(*corev1.Event); ok && err == nil {
			*written = append(*written, event)
		}
		return true, object, err
	})
	lines := funcr.New(func(_, args string) { *log = append(*log, args) }, funcr.Options{Verbosity: 1})
	return New(Client{Events: set.EventsV1(), Core: set.CoreV1()}, scheme.Scheme, "vpa-updater", testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), lines), asked, written, log
}

func TestEventsGoToTheCoreAPIWhereOnlyThatIsAllowed(t *testing.T) {
	no := func(string) error { return apierrors.NewForbidden(eventsv1.Resource("events"), "", errors.New("RBAC")) }
	w, asked, written, log := both(t, no, func(string) error { return nil })
	for range 3 {
		w.Eventf(aPod("web"), aPod("other"), corev1.EventTypeWarning, "Reason", "Act", "the %s", "note")
		w.writeNext(t.Context())
	}
	require.Equal(t, map[string]int{"events.k8s.io": 1, "core": 3}, asked)
	require.Len(t, *log, 1)
	require.Contains(t, (*log)[0], `"events are written to the core API from now on: this process may not create events in API group events.k8s.io"`)
	require.Len(t, *written, 3)
	e := (*written)[0]
	require.Equal(t, []string{"web", "other", "Warning", "Reason", "Act", "the note", "vpa-updater", "vpa-updater", e.ReportingInstance},
		[]string{e.InvolvedObject.Name, e.Related.Name, e.Type, e.Reason, e.Action, e.Message, e.Source.Component, e.ReportingController, "vpa-updater-" + hostname()})
	require.True(t, e.EventTime.Time.Equal(e.LastTimestamp.Time) && e.FirstTimestamp.Equal(&e.LastTimestamp) && !e.LastTimestamp.IsZero())
	require.Zero(t, w.total)
}

// API servers forbid events in a namespace that is being deleted, too.
func TestAnEventThatIsForbiddenInOneNamespaceSwitchesNothing(t *testing.T) {
	ending := func(namespace string) error {
		if namespace == "ending" {
			return apierrors.NewForbidden(eventsv1.Resource("events"), "", errors.New("it is being terminated"))
		}
		return nil
	}
	w, asked, written, log := both(t, ending, ending)
	before := testutil.ToFloat64(dropped)
	for _, ns := range []string{"ending", "ns"} {
		w.Eventf(podIn(ns, "web"), nil, corev1.EventTypeNormal, "Reason", "Act", "note")
		w.writeNext(t.Context())
	}
	require.Equal(t, map[string]int{"events.k8s.io": 2, "core": 1}, asked)
	require.Equal(t, 1.0, testutil.ToFloat64(dropped)-before)
	require.Empty(t, *written)
	require.Len(t, *log, 1)
	require.Contains(t, (*log)[0], `"event dropped" "error"="events.events.k8s.io is forbidden: it is being terminated"`)
}
