package updater

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/metric"
	"github.com/celvpa/celvpa/controllers/podupdate"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// tally counts what a cycle did with the pods of one VPA. Only the worker of the VPA changes it.
type tally struct {
	candidates int // pods to evict or resize at the start of the cycle
	evicted    int
	resized    int
	decided    []decided            // few entries: pods of a VPA are alike
	postponed  map[types.UID]string // pods left to the next cycle, with the reason
}

// decided counts pods by action and rule.
type decided struct {
	action, rule, class string
	pods                int
}

// decide counts the final decision on a pod.
func (t *tally) decide(verdict engine.Verdict) {
	for i := range t.decided {
		if d := &t.decided[i]; d.action == verdict.Do && d.rule == verdict.Rule && d.class == verdict.Class {
			d.pods++
			return
		}
	}
	t.decided = append(t.decided, decided{action: verdict.Do, rule: verdict.Rule, class: verdict.Class, pods: 1})
}

// postpone counts a pod that is left to the next cycle.
func (t *tally) postpone(pod types.UID, reason string) {
	if t.postponed == nil {
		t.postponed = map[types.UID]string{}
	}
	t.postponed[pod] = reason
}

// candidate counts the first decision on a pod, before others changed the budget.
func (t *tally) candidate(verdict engine.Verdict) {
	if podupdate.Acts(verdict.Do) {
		t.candidates++
	}
}

// resizes reports whether metrics count a VPA as one that resizes pods.
func resizes(c counters) bool {
	mode := vpav1.UpdateMode(c.mode)
	return mode == vpav1.UpdateModeInPlace || mode == vpav1.UpdateModeInPlaceOrRecreate
}

// tallies are the latest ones by VPA: metrics keep showing them for VPAs that a cycle did not
// reach.
type tallies map[types.UID]tally

// publish sets the gauges after a cycle.
func (t *tallies) publish(work []*workload) {
	now := make(tallies, len(work))
	unreached := 0
	metric.Replace(func() {
		for _, reason := range []string{postponedByStart, postponedByRate, postponedByDeadline} {
			postponedPods.WithLabelValues(reason).Set(0)
		}
		for _, w := range work {
			found := w.tally
			if !w.started || w.late {
				unreached++
			}
			if !w.started {
				found = (*t)[w.vpa.UID]
				found.evicted, found.resized, found.postponed = 0, 0, nil
			}
			now[w.vpa.UID] = found
			found.addTo(w)
		}
	}, controlledPods, evictablePods, vpasEvictable, vpasEvicted, updatablePods, vpasUpdatable, vpasUpdated, decidedPods, blockedPods, postponedPods)
	*t = now
	unreachedVPAs.Set(float64(unreached))
}

// postponedPodsOf are the pods that a cycle left to the next one, with the reason.
func postponedPodsOf(work []*workload) map[types.UID]string {
	out := map[types.UID]string{}
	for _, w := range work {
		maps.Copy(out, w.tally.postponed)
		if !w.started {
			for _, pod := range w.pods {
				out[pod.UID] = postponedByDeadline
			}
		}
	}
	return out
}

// addTo adds a tally to the gauges.
func (t tally) addTo(w *workload) {
	c := w.counted
	any := func(n int) float64 { return float64(min(n, 1)) }
	controlledPods.WithLabelValues(c.size, c.mode).Add(float64(len(w.pods)))
	if resizes(c) {
		updatablePods.WithLabelValues(c.size).Add(float64(t.candidates))
		vpasUpdatable.WithLabelValues(c.size).Add(any(t.candidates))
	} else {
		evictablePods.WithLabelValues(c.size, c.mode).Add(float64(t.candidates))
		vpasEvictable.WithLabelValues(c.size, c.mode).Add(any(t.candidates))
	}
	vpasEvicted.WithLabelValues(c.size, c.mode).Add(any(t.evicted))
	vpasUpdated.WithLabelValues(c.size).Add(any(t.resized))
	for _, reason := range t.postponed {
		postponedPods.WithLabelValues(reason).Inc()
	}
	for _, d := range t.decided {
		decidedPods.WithLabelValues(d.action, d.rule).Add(float64(d.pods))
		if d.class == facts.ClassWaiting || d.class == facts.ClassMisconfigured {
			blockedPods.WithLabelValues(strings.ToLower(d.class), d.rule).Add(float64(d.pods))
		}
	}
}
