package target

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/conformance/hang"
)

// The owner references of a pod under review are not validated yet, and may be megabytes long.
func TestOwnersThatCannotExistAreNotRemembered(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, tt := range map[string]struct {
		change     func(pod *corev1.Pod, of *metav1.OwnerReference)
		known      bool // the owner is a ReplicaSet
		remembered bool
	}{
		"a long UID of a well-known owner":   {known: true, change: func(_ *corev1.Pod, of *metav1.OwnerReference) { of.UID = types.UID(long(maxUID + 1)) }},
		"a long name of a well-known owner":  {known: true, change: func(_ *corev1.Pod, of *metav1.OwnerReference) { of.Name = long(maxName + 1) }},
		"a long UID of a custom owner":       {change: func(_ *corev1.Pod, of *metav1.OwnerReference) { of.UID = types.UID(long(maxUID + 1)) }},
		"a long name of a custom owner":      {change: func(_ *corev1.Pod, of *metav1.OwnerReference) { of.Name = long(maxName + 1) }},
		"a long kind":                        {change: func(_ *corev1.Pod, of *metav1.OwnerReference) { of.Kind = long(maxKind + 1) }},
		"a long apiVersion":                  {change: func(_ *corev1.Pod, of *metav1.OwnerReference) { of.APIVersion = long(maxAPIVersion) + "/v1" }},
		"a long namespace":                   {change: func(pod *corev1.Pod, _ *metav1.OwnerReference) { pod.Namespace = long(maxNamespace + 1) }},
		"the longest name of a custom owner": {change: func(_ *corev1.Pod, of *metav1.OwnerReference) { of.Name = long(maxName) }, remembered: true},
		"the longest UID that is looked up":  {change: func(_ *corev1.Pod, of *metav1.OwnerReference) { of.UID = types.UID(long(maxUID)) }, remembered: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := newScaleAPI(always(errGone), "v1")
			r := resolver(nil)
			r.Scales = api.scales
			pod := podOf(*review("t", "1"))
			of := &pod.OwnerReferences[0]
			if tt.known {
				of.APIVersion, of.Kind = "apps/v1", "ReplicaSet"
			}
			tt.change(pod, of)
			canceled, cancel := context.WithCancel(t.Context()) // so that nothing waits for an answer
			cancel()
			_, err := r.Top(canceled, pod, nil)
			require.Error(t, err)
			api.scales.mu.Lock()
			defer api.scales.mu.Unlock()
			require.Equal(t, tt.remembered, len(api.scales.entries) > 0)
			if !tt.remembered {
				require.ErrorContains(t, err, "does not exist or cannot be scaled")
			}
		})
	}
}

func TestFloodOfOwnersDropsThoseUnusedForLongest(t *testing.T) {
	api := newScaleAPI(always(errGone), "v1")
	require.Equal(t, "none", api.look(t, thing("target"), asTarget))
	require.Contains(t, api.answerOf(t.Context(), review("unused", "1")), "cannot be scaled")
	for i := range 2 * maxReviewed {
		api.clock.Step(time.Millisecond)
		require.Contains(t, api.answerOf(t.Context(), review(fmt.Sprint("flood-", i), "1")), "cannot be scaled")
		if i%1000 == 0 {
			require.Contains(t, api.answerOf(t.Context(), review("used", "1")), "cannot be scaled")
		}
	}
	require.LessOrEqual(t, len(api.scales.entries), maxReviewed+1)
	require.Contains(t, api.scales.entries, thing("target"), "no review drops what a VPA targets")
	require.Contains(t, api.scales.entries, thing("used"))
	require.Contains(t, api.scales.entries, thing(fmt.Sprint("flood-", 2*maxReviewed-1)))
	require.NotContains(t, api.scales.entries, thing("unused"))
}

// A review that waits holds a place that others need.
func TestFewReviewsWaitForMissingOwners(t *testing.T) {
	for most, waiting := range map[int]int{0: 1, 2: 2} {
		api := newScaleAPI(nil, "v1")
		r := resolver(nil)
		r.Scales = api.scales
		api.scales.LimitWaits(most)
		number := 0
		ask := func() chan error {
			of, out := controlledBy("apps/v1", "ReplicaSet", "never"), make(chan error, 1)
			number++
			of.UID = types.UID(fmt.Sprint(number))
			go func() {
				_, err := r.Top(t.Context(), podOf(of), nil)
				out <- err
			}()
			return out
		}
		for range 2 { // who has waited leaves the place to others
			var waits []chan error
			for range waiting {
				waits = append(waits, ask())
			}
			hang.Until(t, func() bool { return api.clock.Waiters() == waiting })
			for range 3 {
				more := ask() // time stands still, so who waits does so until the next step
				hang.Until(t, func() bool { return len(more) > 0 })
				require.ErrorContains(t, <-more, "ReplicaSet ns/never does not exist")
			}
			api.clock.Step(lateFor)
			for _, wait := range waits {
				require.ErrorContains(t, <-wait, "ReplicaSet ns/never does not exist")
			}
		}
	}
}
