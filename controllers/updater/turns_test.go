package updater

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// Requests that hang must not take the time of other VPAs in every cycle, nor many VPAs of one namespace that of another's.
func TestOrderOfVPAsInACycle(t *testing.T) {
	vpas := func(names ...string) (out []*workload) {
		for _, name := range names {
			out = append(out, &workload{vpa: &vpav1.VerticalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: name[:1], Name: name, UID: types.UID(name)}}})
		}
		return out
	}
	for name, tt := range map[string]struct {
		given  []*workload
		waited map[types.UID]int
		served string
		want   string
	}{
		"none":                               {nil, nil, "", ""},
		"by name":                            {vpas("ac", "aa", "ab"), nil, "", "aa ab ac"},
		"those that waited first":            {vpas("aa", "ab", "ac", "ad"), map[types.UID]int{"ac": 1, "ad": 2}, "", "ad ac aa ab"},
		"by turns":                           {vpas("aa", "ab", "ac", "ba", "bb", "ca"), nil, "", "aa ba ca ab bb ac"},
		"served longest ago":                 {vpas("aa", "ab", "ba", "ca"), nil, "ab", "ca aa ba ab"},
		"waiting jumps no turn":              {vpas("aa", "ab", "ba"), map[types.UID]int{"aa": 9, "ab": 9}, "", "aa ba ab"},
		"who waited for long, within a turn": {vpas("aa", "ba", "ca"), map[types.UID]int{"ba": 2, "ca": 3}, "", "ca ba aa"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{Updater: &Updater{waited: tt.waited}}
			for _, namespace := range tt.served {
				r.turns.Served(string(namespace))
			}
			r.inTurn(tt.given)
			var got []string
			for _, w := range tt.given {
				got = append(got, w.vpa.Name)
			}
			require.Equal(t, tt.want, strings.Join(got, " "))
		})
	}
}

// TestManyVPAsOfOneNamespaceDelayNoOther: 100 VPAs of one namespace would put another's behind them for 33 cycles.
func TestManyVPAsOfOneNamespaceDelayNoOther(t *testing.T) {
	for mode, ask := range map[vpav1.UpdateMode]string{vpav1.UpdateModeRecreate: "evict", vpav1.UpdateModeInPlaceOrRecreate: "resize"} {
		for name, limit := range map[string]func(*Options){
			"rate limit":                func(o *Options) { o.Limits = NewLimits(0.001, 3) },
			"limit of the first cycles": func(o *Options) { o.FirstCycle = 3 },
		} {
			if mode != vpav1.UpdateModeRecreate && name != "rate limit" {
				continue // resizes restart no container here
			}
			t.Run(ask+", "+name, func(t *testing.T) {
				w := newWorld(t, func(o *Options) {
					limit(o)
					o.Concurrent = 1
				})
				w.namespace = "loud"
				for i := range 100 {
					w.workload(fmt.Sprintf("a%d", i), 2, mode)
				}
				w.namespace = "quiet"
				w.workload("z", 4, mode)
				w.cycle()
				require.Contains(t, w.asked, ask+" z-201", "%s", w.asked)
				w.Limits, w.first = NewLimits(0.001, 3), firstCycles{limit: 3}
				w.clock.Step(w.Interval)
				w.pod("z", nil)
				w.cycle()
				require.Contains(t, strings.Join(w.asked, " "), ask+" z-", "in the next cycle, too: %s", w.asked)
			})
		}
	}
}

// TestConditionsToRemoveDelayNoEviction: whoever may write statuses could give thousands of VPAs a condition that the updater removes.
func TestConditionsToRemoveDelayNoEviction(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	w.refuse = func(ask, _ string) error {
		if ask == "status" {
			cancel() // the first takes all of the cycle
		}
		return nil
	}
	removed := func() (n int) {
		var list vpav1.VerticalPodAutoscalerList
		require.NoError(t, w.List(t.Context(), &list))
		for i := range list.Items {
			n += len(list.Items[i].Status.Conditions)
		}
		return 3 - n
	}
	for i := range 3 {
		name := fmt.Sprint("forged", i)
		w.workload(name, 1, vpav1.UpdateModeOff)
		v := &vpav1.VerticalPodAutoscaler{}
		require.NoError(t, w.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: name}, v))
		v.Status.Conditions = []vpav1.VerticalPodAutoscalerCondition{{Type: vpav1.UpdatesHaveNoEffect, Status: corev1.ConditionTrue}}
		require.NoError(t, w.WithWatch.Status().Update(t.Context(), v))
	}
	w.workload("web", 2, vpav1.UpdateModeRecreate)
	w.RunOnce(ctx)
	require.Equal(t, []string{"evict web-04"}, w.done)
	require.LessOrEqual(t, removed(), 1)
	w.RunOnce(t.Context())
	require.Equal(t, 3, removed())
}
