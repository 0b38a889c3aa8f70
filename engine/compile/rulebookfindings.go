package compile

import (
	"maps"
	"slices"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/source"
)

// OverlayEffect is what one overlay alone changes in one pipeline.
type OverlayEffect struct {
	Overlay  *document.Overlay
	Pipeline string
	Changes  []string // in words
}

// Same reports whether two effects are equal, for the same objects in the same mode.
func (e OverlayEffect) Same(other OverlayEffect) bool {
	return e.Overlay.Uses().Value == other.Overlay.Uses().Value && slices.Equal(e.Changes, other.Changes) && e.Overlay.ModeOf() == other.Overlay.ModeOf() && e.Overlay.PriorityOf() == other.Overlay.PriorityOf() &&
		e.Overlay.Match.String() == other.Overlay.Match.String()
}

// Effects lists what each overlay changes in each of its pipelines.
func (b *Rulebook) Effects() []OverlayEffect {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []OverlayEffect
	for _, o := range b.overlays {
		for _, pipe := range b.pipelines {
			if !o.AppliesTo(pipe) {
				continue
			}
			base, with := b.plans[planKey(pipe, nil)], b.plans[planKey(pipe, []*document.Overlay{o})]
			if !o.Uses().IsZero() {
				base = b.standard
			}
			out = append(out, OverlayEffect{Overlay: o, Pipeline: pipe.ID(), Changes: engine.Diff(base, with)})
		}
	}
	return out
}

// Findings are likely mistakes in rules that compile, and rule sets that nothing runs, ordered by
// position. Those that an overlay causes only by removing their surroundings are left out, and so
// are points that are not compiled.
func (b *Rulebook) Findings() []*source.Problem {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all, run := &source.Collector{}, map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(b.plans)) {
		plan := b.plans[key]
		for _, p := range plan.Parts().Findings {
			if len(plan.Overlays()) == 0 || b.brought(plan, p.Pos) {
				all.Add(p)
			}
		}
		for _, point := range plan.Parts().Resolved.Points {
			for _, placed := range point.Sets {
				run[placed.Set.ID()] = true
			}
		}
	}
	for _, id := range b.library.RuleSetIDs() {
		if set := b.library.RuleSets[id]; !run[id] {
			all.At(set.Name, "RuleSet "+id, "nothing runs it; name it in a pipeline, or let an overlay add it: {add: "+id+"}")
		}
	}
	for _, o := range b.overlays {
		for _, c := range o.Changes {
			if v := c.Validation; v != nil && v.EnforcedAt(document.EnforceSchema) && !o.Match.Everything() {
				all.At(v.Enforce[0], o.Subject(), "a schema is the same for all objects, so it cannot hold a validation for some of them; enforce it at "+document.EnforceAdmission+" only")
			}
		}
	}
	b.keptBySchemas(all)
	b.neverCalled(all)
	all.Sort()
	all.Dedupe()
	return all.List
}

// brought reports whether what stands at a position is of the plan's overlays: written in one, or in a rule set that one of them
// adds and no other changes.
func (b *Rulebook) brought(plan *engine.Plan, at source.Position) bool {
	overlay, ruleSet := b.library.OwnerAt(at)
	if ruleSet == "" {
		return slices.Contains(plan.Overlays(), overlay)
	}
	for _, point := range plan.Parts().Resolved.Points {
		for _, placed := range point.Sets {
			if placed.Added != nil && placed.Set.ID() == ruleSet {
				return !slices.ContainsFunc(placed.By, func(o *document.Overlay) bool { return o != placed.Added })
			}
		}
	}
	return false
}

// keptBySchemas reports enforced overlays for some objects that remove or change a schema rule: the
// schema is the same for all objects, so API servers go on enforcing it.
func (b *Rulebook) keptBySchemas(all *source.Collector) {
	for _, o := range b.overlays {
		if o.ModeOf() != document.ModeEnforce || o.Match.Everything() {
			continue
		}
		for _, pipe := range b.pipelines {
			base, with := b.plans[planKey(pipe, nil)], b.plans[planKey(pipe, []*document.Overlay{o})]
			if with == nil {
				continue // it is for another pipeline
			}
			now := schemaRules(with)
			for rule, was := range schemaRules(base) {
				if now[rule] != was {
					all.At(o.Name, o.Subject(), rule+" is enforced by the schema, which is the same for all objects: API servers go on refusing what it refuses")
				}
			}
		}
	}
}

// schemaRules returns the conditions of schema validations, by rule.
func schemaRules(p *engine.Plan) map[string]string {
	out := map[string]string{}
	for point, at := range p.Parts().Points {
		if at.LeftOut {
			continue
		}
		for _, v := range p.Validations(point) {
			if v.Validation.EnforcedAt(document.EnforceSchema) {
				out[v.Rule] += v.Validation.When.Value + "\x00" + v.Validation.Expression.Value + "\x00"
			}
		}
	}
	return out
}
