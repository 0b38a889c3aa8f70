package explain

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxEvents bounds the events of a report.
const maxEvents = 100

// readEvents reads the events of the VPA, and keeps the newest. It reads all of them: API servers list
// events by name, which says nothing about when one was seen last.
func (o *objects) readEvents(ctx context.Context, c client.Client) {
	about := client.MatchingFields{"involvedObject.kind": "VerticalPodAutoscaler", "involvedObject.name": o.vpa.Name}
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		var list corev1.EventList
		return &list, c.List(ctx, &list, about, client.InNamespace(o.vpa.Namespace), client.Limit(page.Limit), client.Continue(page.Continue))
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(e runtime.Object) error {
		o.events = append(o.events, eventOf(e.(*corev1.Event)))
		return nil
	})
	if err != nil {
		o.cannot("Events of namespace "+o.vpa.Namespace, "what happened lately", err)
	}
	slices.SortStableFunc(o.events, func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
	})
	o.eventsCut = max(0, len(o.events)-maxEvents)
	o.events = o.events[o.eventsCut:]
}

func eventOf(e *corev1.Event) Event {
	out := Event{Time: seenLast(e), Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, Type: e.Type, Reason: e.Reason, Message: e.Message, Count: int(e.Count)}
	if e.Series != nil {
		out.Count = int(e.Series.Count)
	}
	return out
}

// seenLast is when an event was seen last.
func seenLast(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if e.Series != nil {
		at = e.Series.LastObservedTime.Time
	}
	if at.IsZero() {
		at = cmp.Or(e.EventTime.Time, e.CreationTimestamp.Time)
	}
	return at
}
