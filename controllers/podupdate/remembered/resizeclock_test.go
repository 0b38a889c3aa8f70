package remembered

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UPSTREAM.md Appendix B 9: a new pod of the same name must not inherit the clock of the old one.
func TestTheResizeClockIsKeyedByUID(t *testing.T) {
	var c ResizeClock
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(uid string, conditions ...corev1.PodCondition) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: types.UID(uid)}, Status: corev1.PodStatus{Conditions: conditions}}
	}
	seen := func(pod *corev1.Pod, now time.Time) UnderWay {
		c.Note(pod, now)
		resize, _ := c.At(pod, now.Add(time.Minute))
		return resize
	}
	deferred := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: "Deferred"}
	require.Equal(t, begin, seen(pod("old", deferred), begin).Since)
	require.Equal(t, begin, seen(pod("old", deferred), begin.Add(time.Hour)).Since)
	require.Equal(t, begin.Add(time.Hour), seen(pod("new", deferred), begin.Add(time.Hour)).Since)
	require.Zero(t, seen(pod("old"), begin.Add(time.Hour)), "the resize is over")
	require.Equal(t, begin.Add(2*time.Hour), seen(pod("old", deferred), begin.Add(2*time.Hour)).Since, "another resize starts")
	fresh, goesOn := c.At(pod("fresh", deferred), begin)
	require.True(t, goesOn)
	require.Equal(t, begin, fresh.Since, "a resize that was not noted begins now")
	c.Keep(func(uid types.UID) bool { return uid == "new" })
	require.Len(t, c.of, 1)
}
