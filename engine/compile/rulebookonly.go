package compile

import (
	"maps"
	"slices"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/source"
)

// Only returns the rulebook with only the kept overlays. It compiles nothing: overlays that fit
// together also fit without others.
func (b *Rulebook) Only(keep func(overlay string) bool) *Rulebook {
	b.mu.RLock()
	defer b.mu.RUnlock()
	library, c := *b.library, *b.compiler
	library.Overlays = maps.Clone(library.Overlays)
	next := &Rulebook{library: &library, pipelines: b.pipelines, standard: b.standard, bases: b.bases, labels: b.labels, compiler: &c, plans: map[string]*engine.Plan{}, failed: map[string]error{}}
	for _, o := range b.overlays {
		if keep(o.Name.Value) {
			next.overlays = append(next.overlays, o)
		} else {
			delete(library.Overlays, o.Name.Value)
		}
	}
	for key, plan := range b.plans {
		kept := true
		for _, name := range plan.Overlays() {
			kept = kept && library.Overlays[name] != nil
		}
		if kept {
			next.plans[key] = plan
		}
	}
	// Drop what was compiled for removed overlays; otherwise it leaks.
	c.ps, c.usedParams = &source.Collector{}, maps.Clone(c.usedParams)
	c.compiled, c.points, c.edited = maps.Clone(c.compiled), maps.Clone(c.points), maps.Clone(c.edited)
	c.keep(next.plans)
	next.alone = min(b.alone, len(c.compiled))
	return next
}

// editedSet is a rule set as overlays have made it, in that order, of another.
type editedSet struct {
	by  []*document.Overlay
	set *document.RuleSet
}

// shared returns the rule set that is compiled already for the same overlays: combinations of
// overlays mostly differ elsewhere.
func (c *compiler) shared(set, base *document.RuleSet, by []*document.Overlay) *document.RuleSet {
	if len(by) == 0 {
		return set
	}
	known := c.edited[base]
	for _, e := range known {
		if slices.Equal(e.by, by) {
			return e.set
		}
	}
	if !c.trying {
		c.edited[base] = append(slices.Clip(known), editedSet{by, set})
	}
	return set
}

// keep drops what is compiled for other plans than these.
func (c *compiler) keep(plans map[string]*engine.Plan) {
	sets, points := map[*engine.SetPlan]bool{}, map[*engine.PointPlan]bool{}
	rules, edited := map[*document.RuleSet]bool{}, map[*document.RuleSet]bool{}
	for _, list := range c.edited {
		for _, e := range list {
			edited[e.set] = true
		}
	}
	for _, plan := range plans {
		for _, at := range plan.Parts().Points {
			points[at] = true
			for _, set := range at.Sets {
				sets[set] = true
			}
		}
	}
	maps.DeleteFunc(c.compiled, func(key setKey, r *setResult) bool {
		if r.plan == nil { // its gate is off
			return edited[key.set]
		}
		return !sets[r.plan]
	})
	maps.DeleteFunc(c.points, func(_ string, at *engine.PointPlan) bool { return !points[at] })
	for key := range c.compiled {
		rules[key.set] = true
	}
	for base, list := range c.edited {
		c.edited[base] = slices.DeleteFunc(slices.Clone(list), func(e editedSet) bool { return !rules[e.set] })
	}
}
