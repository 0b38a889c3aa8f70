package updater

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"
)

// sink is a recorder whose API server answers what one likes.
func sink(answer func(*eventsv1.Event) error) (*Events, *testclock.FakeClock) {
	set := fake.NewClientset()
	set.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		event := action.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
		return true, event, answer(event)
	})
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	return &Events{Client: set.EventsV1(), Scheme: scheme.Scheme, Controller: "vpa-updater", Clock: clk, Log: logr.Discard()}, clk
}

func aPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}}
}

// started runs a recorder until the returned function is called, which waits for its end.
func started(t *testing.T, e *Events) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.Start(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func TestNoEventIsDroppedWhenThousandsComeAtOnce(t *testing.T) {
	var mu sync.Mutex
	names, notes := map[string]bool{}, map[string]bool{}
	e, _ := sink(func(event *eventsv1.Event) error {
		mu.Lock()
		defer mu.Unlock()
		names[event.Name], notes[event.Note] = true, true
		return nil
	})
	var writers sync.WaitGroup
	for n := range 10 {
		writers.Go(func() {
			for i := range 200 {
				e.Eventf(aPod("web"), aPod("other"), corev1.EventTypeNormal, "EvictedByVPA", "Evict", "%d-%d", n, i)
			}
		})
	}
	writers.Wait()
	started(t, e)() // what waits at the end is written yet
	require.Len(t, notes, 2000)
	require.Len(t, names, 2000, "no two have one name")
	require.Zero(t, e.queue.size)
}

func TestEventsHaveUpstreamsForm(t *testing.T) {
	var got *eventsv1.Event
	e, clk := sink(func(event *eventsv1.Event) error { got = event; return nil })
	e.Eventf(aPod("web"), aPod("other"), corev1.EventTypeWarning, "Reason", "Act", "%s", strings.Repeat("ü", 600))
	started(t, e)()
	require.Equal(t, "Pod ns/web v1", got.Regarding.Kind+" "+got.Regarding.Namespace+"/"+got.Regarding.Name+" "+got.Regarding.APIVersion)
	require.Equal(t, "other", got.Related.Name)
	require.Equal(t, "ns", got.Namespace)
	require.Equal(t, "vpa-updater", got.ReportingController)
	require.Equal(t, []string{"Warning", "Reason", "Act"}, []string{got.Type, got.Reason, got.Action})
	require.True(t, got.EventTime.Time.Equal(clk.Now()))
	require.LessOrEqual(t, len(got.Note), maxEventNote)
	require.True(t, strings.HasSuffix(got.Note, "ü …"))
}

func TestAnEventIsWrittenWhenTheAPIServerIsBack(t *testing.T) {
	tries := make(chan int, 10)
	n := 0
	e, clk := sink(func(*eventsv1.Event) error {
		if n++; n < 3 {
			tries <- n
			return errors.New("connection refused")
		}
		tries <- n
		return nil
	})
	e.Eventf(aPod("web"), nil, corev1.EventTypeNormal, "R", "A", "note")
	stop := started(t, e)
	for want := 1; want <= 3; want++ {
		require.Equal(t, want, <-tries)
		if want < 3 {
			require.Eventually(t, clk.HasWaiters, 5*time.Second, time.Millisecond)
			clk.Step(30 * time.Second)
		}
	}
	stop()
}

func TestAnEventThatIsRefusedIsGivenUp(t *testing.T) {
	before := testutil.ToFloat64(droppedEvents)
	e, _ := sink(func(*eventsv1.Event) error { return forbidden("the namespace is being terminated", "") })
	e.Eventf(aPod("web"), nil, corev1.EventTypeNormal, "R", "A", "note")
	started(t, e)()
	require.Equal(t, before+1, testutil.ToFloat64(droppedEvents))
}

func TestEventsThatWaitAreBounded(t *testing.T) {
	before := testutil.ToFloat64(droppedEvents)
	e, _ := sink(func(*eventsv1.Event) error { return nil })
	pod := aPod("web")
	for i := range maxEvents + 5 {
		e.Eventf(pod, nil, corev1.EventTypeNormal, "R", "A", "%d", i)
	}
	require.Equal(t, maxEvents, e.queue.size)
	require.Equal(t, before+5, testutil.ToFloat64(droppedEvents))
}

// podIn is a pod of a tenant's namespace.
func podIn(namespace, name string) *corev1.Pod {
	pod := aPod(name)
	pod.Namespace = namespace
	return pod
}

// One tenant's thousands of failing pods are not in the way of another tenant's one event.
func TestEventsOfOneTenantDoNotCrowdOutOthers(t *testing.T) {
	before := testutil.ToFloat64(droppedEvents)
	e, clk := sink(func(*eventsv1.Event) error { return nil })
	loud, quiet := podIn("loud", "web"), podIn("quiet", "web")
	for i := range maxEvents + 100 {
		e.Eventf(loud, nil, corev1.EventTypeWarning, "R", "A", "%d", i)
	}
	e.Eventf(quiet, nil, corev1.EventTypeNormal, "R", "A", "note")
	require.Equal(t, maxEvents, e.queue.size)
	require.Equal(t, before+101, testutil.ToFloat64(droppedEvents), "all of them of the loud one")
	var turns []string
	for range 3 {
		q, ok, _ := e.queue.take(clk.Now())
		require.True(t, ok)
		turns = append(turns, q.namespace())
	}
	require.Equal(t, []string{"loud", "quiet", "loud"}, turns, "whatever waits before it")
}

// Nor does a namespace that takes no events, however many wait for it.
func TestANamespaceThatTakesNoEventsHoldsNoOthersUp(t *testing.T) {
	written := make(chan string, 10)
	e, _ := sink(func(event *eventsv1.Event) error {
		if event.Namespace == "broken" {
			return errors.New("the webhook of this tenant does not answer")
		}
		written <- event.Regarding.Name
		return nil
	})
	for range 10 * eventWriters {
		e.Eventf(podIn("broken", "web"), nil, corev1.EventTypeWarning, "R", "A", "note")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.Start(ctx) }()
	for i := range 10 { // nobody steps the clock: those of the other wait for their next try all the time
		e.Eventf(podIn("well", fmt.Sprint(i)), nil, corev1.EventTypeNormal, "R", "A", "note")
		require.Equal(t, fmt.Sprint(i), <-written)
	}
	cancel()
	for {
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		default:
			e.Clock.(*testclock.FakeClock).Step(eventFlushTime)
		}
	}
}

func TestAProcessDoesNotWaitForAnAPIServerThatDoesNotAnswer(t *testing.T) {
	asked := make(chan bool, eventWriters)
	e, clk := sink(func(*eventsv1.Event) error {
		select {
		case asked <- true:
		default: // the clock may be ahead of the end, and nobody listens any more
		}
		return fmt.Errorf("connection refused")
	})
	e.Eventf(aPod("web"), nil, corev1.EventTypeNormal, "R", "A", "note")
	stop := started(t, e)
	<-asked
	require.Eventually(t, clk.HasWaiters, 5*time.Second, time.Millisecond)
	ended := make(chan bool)
	go func() {
		stop()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			return
		default:
			clk.Step(eventFlushTime)
		}
	}
}
