package explain

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestTheNewestEventsAreReported although API servers list events by name, in pages: the newest may be
// on any of them.
func TestTheNewestEventsAreReported(t *testing.T) {
	const all, page = 1234, 500
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	event := func(i int) corev1.Event {
		e := corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("web.%04d", i)}, Reason: "EvictedPod", Message: strconv.Itoa(i)}
		e.InvolvedObject = corev1.ObjectReference{Kind: "VerticalPodAutoscaler", Namespace: "shop", Name: "web"}
		e.LastTimestamp = metav1.NewTime(day.Add(time.Duration(i*7%all) * time.Second)) // 7 and 1234 have no common factor: each second once
		return e
	}
	c := interceptor.NewClient(api(t, vpaOf("web", "Deployment", "web")).(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			events, is := list.(*corev1.EventList)
			if !is {
				return c.List(ctx, list, opts...)
			}
			asked := (&client.ListOptions{}).ApplyOptions(opts)
			require.EqualValues(t, page, asked.Limit)
			require.True(t, asked.FieldSelector.Matches(fields.Set{"involvedObject.kind": "VerticalPodAutoscaler", "involvedObject.name": "web"}))
			require.Len(t, asked.FieldSelector.Requirements(), 2)
			from, _ := strconv.Atoi(asked.Continue)
			for i := from; i < min(from+page, all); i++ {
				events.Items = append(events.Items, event(i))
			}
			if from+page < all {
				events.Continue = strconv.Itoa(from + page)
			}
			return nil
		},
	})
	r, err := Explain(t.Context(), Options{Client: c, Now: day.Add(time.Hour)}, Subject{Namespace: "shop", Name: "web"})
	require.NoError(t, err)
	require.Len(t, r.Events, maxEvents)
	require.Equal(t, all-maxEvents, r.EventsCut)
	for i, e := range r.Events {
		require.Equal(t, day.Add(time.Duration(all-maxEvents+i)*time.Second), e.Time.UTC())
	}
}
