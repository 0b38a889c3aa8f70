package updater

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
)

func TestResizeStatusOfAPod(t *testing.T) {
	pending := func(reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}
	}
	inProgress := func(reason, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	}
	tests := []struct {
		name       string
		conditions []corev1.PodCondition
		want       string
	}{
		{"none", []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}, ""},
		{"over", []corev1.PodCondition{{Type: corev1.PodResizeInProgress, Status: corev1.ConditionFalse}}, ""},
		{"in progress", []corev1.PodCondition{inProgress("", "")}, "InProgress"},
		{"failing", []corev1.PodCondition{inProgress("Error", "cgroup")}, "Error"},
		{"strange", []corev1.PodCondition{inProgress("", "what")}, "Unknown"},
		{"deferred", []corev1.PodCondition{pending("Deferred")}, "Deferred"},
		{"infeasible", []corev1.PodCondition{pending("Infeasible")}, "Infeasible"},
		{"pending for a reason of the future", []corev1.PodCondition{pending("Moonphase")}, "Unknown"},
		{"a pending resize says more than the one in progress", []corev1.PodCondition{inProgress("", ""), pending("Deferred")}, "Deferred"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, resizeStatus(&corev1.Pod{Status: corev1.PodStatus{Conditions: tt.conditions}}))
		})
	}
}

// UPSTREAM.md Appendix B 9: a new pod of the same name must not inherit the clock of the old one.
func TestTheResizeClockIsKeyedByUID(t *testing.T) {
	var c resizeClock
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Zero(t, c.age("old", "Deferred", begin))
	require.Equal(t, time.Hour, c.age("old", "Deferred", begin.Add(time.Hour)))
	require.Zero(t, c.age("new", "Deferred", begin.Add(time.Hour)))
	require.Zero(t, c.age("old", "", begin.Add(time.Hour)), "the resize is over")
	require.Zero(t, c.age("old", "Deferred", begin.Add(2*time.Hour)), "another one begins")
	c.keep(map[types.UID]bool{"new": true})
	require.Len(t, c.since, 1)
}

func TestPodsGoInTheOrderOfTheRules(t *testing.T) {
	pod := func(name string, first int64, then float64) ranked {
		p := &corev1.Pod{}
		p.Name = name
		return ranked{state: &facts.PodState{Pod: p}, priority: facts.Priority{First: first, Then: then}}
	}
	list := []ranked{pod("d", 0, 9), pod("c", 1, 1), pod("b", 1, 1), pod("a", 1, 2), pod("e", 0, 0.5), pod("f", 0, math.NaN())}
	sortByPriority(list)
	var names []string
	for _, r := range list {
		names = append(names, r.state.Pod.Name)
	}
	require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, names)
}
