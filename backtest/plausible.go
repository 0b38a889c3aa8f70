package backtest

import (
	"slices"

	"github.com/celvpa/celvpa/backtest/history"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/controllers/policy"
	"github.com/celvpa/celvpa/controllers/recommender/model"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine/compile"
	"github.com/celvpa/celvpa/simulate/usagefile"
)

// plausible drops the points of more than the rules accept, and counts them.
func (s *shard) plausible(points []history.Point, pod model.PodID, of *demand, kind usagefile.Kind) []history.Point {
	r := model.Memory
	if kind == usagefile.CPU {
		r = model.CPU
	}
	return slices.DeleteFunc(points, func(p history.Point) bool {
		most, ok := model.Plausible(of.window, r, p.Amount)
		if !ok {
			s.excess.Add(model.Sample{Pod: pod, Container: of.name, Resource: r, Amount: p.Amount, At: clock(p.At)}, most)
		}
		return !ok
	})
}

// window sets which samples count, by the rules that the flags ask for.
func (s *stage) window(book *compile.Rulebook) {
	for _, sh := range s.shards {
		known := map[[2]string]facts.Window{} // by VPA and container
		for i := range sh.slots {
			w := sh.workloads[sh.slots[i].workload]
			v := s.vpaOf[w]
			if v == nil {
				v = &vpav1.VerticalPodAutoscaler{}
				v.Namespace = w.Namespace
			}
			for j := range sh.slots[i].containers {
				d := &sh.slots[i].containers[j]
				key := [2]string{v.Name, d.name}
				window, ok := known[key]
				if !ok {
					window = windowOf(book, v, d.name)
					known[key] = window
				}
				d.window = window
			}
		}
	}
}

// windowOf is that of a container. The replay reports rules that fail.
func windowOf(book *compile.Rulebook, v *vpav1.VerticalPodAutoscaler, container string) facts.Window {
	plan := policy.For(book, v).Plan
	if plan == nil {
		plan = book.Default()
	}
	w, _ := facts.WindowFor(plan, container, facts.Policy(facts.PolicyRulesOf(plan).For(v.Spec.ResourcePolicy, container)), nil)
	return w
}

// guard chooses the rules that say which samples count at all: those that the flags ask for.
func (b *bench) guard() {
	for i := range b.candidates {
		if c := &b.candidates[i]; c.Book != nil && c.Name != Upstream {
			b.stage.window(c.Book)
			return
		}
	}
}

// excess is a remark on the samples that do not count at all.
func (b *bench) excess() []string {
	var all model.Excess
	for _, sh := range b.shards {
		all.Merge(sh.excess)
	}
	if text := all.String(); text != "" {
		return []string{text}
	}
	return nil
}
