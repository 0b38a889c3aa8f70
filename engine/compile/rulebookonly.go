package compile

import (
	"maps"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/source"
)

// Only returns the rulebook with only the kept overlays. It compiles nothing: overlays that fit
// together also fit without others.
func (b *Rulebook) Only(keep func(overlay string) bool) *Rulebook {
	b.mu.RLock()
	defer b.mu.RUnlock()
	library, c := *b.library, *b.compiler
	library.Overlays = maps.Clone(library.Overlays)
	next := &Rulebook{library: &library, pipelines: b.pipelines, standard: b.standard, bases: b.bases, compiler: &c, plans: map[string]*engine.Plan{}, failed: map[string]error{}}
	for _, o := range b.overlays {
		if keep(o.Name.Value) {
			next.overlays = append(next.overlays, o)
		} else {
			delete(library.Overlays, o.Name.Value)
		}
	}
	sets, points := map[*engine.SetPlan]bool{}, map[*engine.PointPlan]bool{}
	for key, plan := range b.plans {
		kept := true
		for _, name := range plan.Overlays() {
			kept = kept && library.Overlays[name] != nil
		}
		if !kept {
			continue
		}
		next.plans[key] = plan
		for _, at := range plan.Parts().Points {
			points[at] = true
			for _, set := range at.Sets {
				sets[set] = true
			}
		}
	}
	// Drop what was compiled for removed overlays; otherwise it leaks.
	c.ps, c.usedParams = &source.Collector{}, maps.Clone(c.usedParams)
	c.compiled, c.points = maps.Clone(c.compiled), maps.Clone(c.points)
	maps.DeleteFunc(c.compiled, func(_ setKey, r *setResult) bool { return r.plan != nil && !sets[r.plan] })
	maps.DeleteFunc(c.points, func(_ string, at *engine.PointPlan) bool { return !points[at] })
	return next
}
