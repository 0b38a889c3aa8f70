package podupdate

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/target"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func TestMemoryIsSafeForConcurrentUse(t *testing.T) {
	var m Memory
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 200 {
				uid := types.UID(fmt.Sprint(n, "-", i%7))
				m.wasInfeasible(uid, facts.Requests{"app": amounts("1", "1Gi")})
				m.ReportInfeasible(uid)
				m.Infeasible(uid)
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
				m.Look([]*corev1.Pod{pod}, time.Time{})
				m.NoteEvicted(pod, time.Time{})
				m.RecallRates(target.Key{}, &facts.Group{}, time.Time{})
			}
		})
	}
	all.Wait()
	m.Look(nil, time.Time{}.Add(2*time.Hour))
	require.Zero(t, m.Len())
}

// UPSTREAM.md Appendix B 9: a new pod of the same name must not inherit the clock of the old one.
func TestResizesAreKnownByTheUIDOfTheirPod(t *testing.T) {
	var m Memory
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(uid string, conditions ...corev1.PodCondition) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: types.UID(uid)}, Status: corev1.PodStatus{Conditions: conditions}}
	}
	since := func(pod *corev1.Pod, now time.Time) time.Time {
		m.NoteResize(pod, now)
		r := Request{Pod: pod, Now: now.Add(time.Minute)}
		m.recall(&r)
		return r.ResizeSeen
	}
	deferred := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: "Deferred"}
	require.Equal(t, begin, since(pod("old", deferred), begin))
	require.Equal(t, begin, since(pod("old", deferred), begin.Add(time.Hour)))
	require.Equal(t, begin.Add(time.Hour), since(pod("new", deferred), begin.Add(time.Hour)))
	require.Zero(t, since(pod("old"), begin.Add(time.Hour)), "the resize is over")
	require.Equal(t, begin.Add(2*time.Hour), since(pod("old", deferred), begin.Add(2*time.Hour)), "another resize starts")
	fresh := Request{Pod: pod("fresh", deferred), Now: begin}
	m.recall(&fresh)
	require.Equal(t, begin, fresh.ResizeSeen, "a resize that was not noted begins now")
	m.Look([]*corev1.Pod{pod("new")}, begin)
	require.Equal(t, 1, m.Len())
}
