package updater

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// tally is what a cycle did with the pods of one VPA. Only the one who works on the VPA changes it.
type tally struct {
	candidates int // pods that the rules would have evicted or resized before anything was done
	evicted    int
	resized    int
	decided    []decided // few: pods of a VPA are much alike
}

// decided is what was done with pods, by which rule, and how many they are.
type decided struct {
	action, rule string
	pods         int
}

// decide notes the last word about a pod.
func (t *tally) decide(verdict engine.Verdict) {
	for i := range t.decided {
		if d := &t.decided[i]; d.action == verdict.Do && d.rule == verdict.Rule {
			d.pods++
			return
		}
	}
	t.decided = append(t.decided, decided{action: verdict.Do, rule: verdict.Rule, pods: 1})
}

// candidate notes what would be done with a pod before anything was done with others.
func (t *tally) candidate(verdict engine.Verdict) {
	if verdict.Do == facts.DoEvict || verdict.Do == facts.DoInPlace {
		t.candidates++
	}
}

// resizes reports whether a VPA resizes pods, as far as metrics are concerned.
func resizes(v *vpav1.VerticalPodAutoscaler) bool {
	mode := vpav1.UpdateMode(modeOf(v))
	return mode == vpav1.UpdateModeInPlace || mode == vpav1.UpdateModeInPlaceOrRecreate
}

// tallies are those of the cycles before, by VPA: of VPAs that a cycle did not reach metrics tell what was found last.
type tallies map[types.UID]tally

// tell sets the gauges after a cycle.
func (t *tallies) tell(work []*workload) {
	now := make(tallies, len(work))
	for _, g := range []*prometheus.GaugeVec{controlledPods, evictablePods, vpasEvictable, vpasEvicted, updatablePods, vpasUpdatable, vpasUpdated, decidedPods} {
		g.Reset()
	}
	unreached := 0
	for _, w := range work {
		found := w.tally
		if !w.begun || w.late {
			unreached++
		}
		if !w.begun {
			found = (*t)[w.vpa.UID]
			found.evicted, found.resized = 0, 0
		}
		now[w.vpa.UID] = found
		found.addTo(w)
	}
	*t = now
	unreachedVPAs.Set(float64(unreached))
}

// addTo adds a tally to the gauges.
func (t tally) addTo(w *workload) {
	c := w.counted
	any := func(n int) float64 { return float64(min(n, 1)) }
	controlledPods.WithLabelValues(c.size, c.mode).Add(float64(len(w.pods)))
	if resizes(w.vpa) {
		updatablePods.WithLabelValues(c.size).Add(float64(t.candidates))
		vpasUpdatable.WithLabelValues(c.size).Add(any(t.candidates))
	} else {
		evictablePods.WithLabelValues(c.size, c.mode).Add(float64(t.candidates))
		vpasEvictable.WithLabelValues(c.size, c.mode).Add(any(t.candidates))
	}
	vpasEvicted.WithLabelValues(c.size, c.mode).Add(any(t.evicted))
	vpasUpdated.WithLabelValues(c.size).Add(any(t.resized))
	for _, d := range t.decided {
		decidedPods.WithLabelValues(d.action, d.rule).Add(float64(d.pods))
	}
}
