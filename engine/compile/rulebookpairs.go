package compile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/internal/resolve"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// checkPair reports conflicts, and changes of the later overlay that the earlier one rules out.
// Nothing that it compiles is kept: there are as many pairs as overlays squared.
func (b *Rulebook) checkPair(base *resolve.Resolved, there, added *document.Overlay) {
	ps := b.compiler.ps
	earlier, later := there, added
	if added.Before(there) {
		earlier, later = added, there
	}
	if !earlier.Match.Overlaps(&later.Match) {
		return
	}
	before := len(ps.List)
	base.Conflict(there, added, ps)
	if len(ps.List) > before || (earlier.ModeOf() != document.ModeEnforce && later.ModeOf() != document.ModeEnforce) {
		return
	}
	if !base.Meet(earlier, later) {
		return
	}
	both, silent := base.Clone(), &source.Collector{}
	both.Apply(earlier, b.library, silent)
	if len(silent.List) > 0 {
		return // reported already for that overlay alone
	}
	both.Apply(later, b.library, ps)
	if len(ps.List) > before || !base.Mix(earlier, later) {
		return
	}
	b.compiler.try(both)
	for _, p := range ps.List[before:] {
		p.Message += fmt.Sprintf(" (with %s and %s together)", earlier.Subject(), later.Subject())
	}
}

// try reports the faults of a resolved pipeline and keeps nothing.
func (c *compiler) try(r *resolve.Resolved) {
	c.trying = true
	defer func() { c.trying = false }()
	c.plan(r)
}

// checkCost reports an enforced overlay with which a point costs too much, for objects that match
// all other enforced overlays which one object may match together with it: such an object would get
// no rules at all.
func (b *Rulebook) checkCost(pipe *document.Pipeline, o *document.Overlay) {
	if o.ModeOf() != document.ModeEnforce {
		return
	}
	base, with := b.costs(pipe), b.costs(pipe, o)
	for _, point := range slices.Sorted(maps.Keys(with)) {
		if with[point] == base[point] {
			continue
		}
		total, others := with[point], []*document.Overlay{}
		for _, other := range b.overlays {
			if other.ModeOf() != document.ModeEnforce || !other.AppliesTo(pipe) || !o.Match.Overlaps(&other.Match) {
				continue
			}
			if theirs := b.costs(pipe, other)[point]; theirs != base[point] && beyond(theirs) == nil {
				total = total.Plus(closure.Cost{Steps: max(0, theirs.Steps-base[point].Steps), Bytes: max(0, theirs.Bytes-base[point].Bytes)})
				others = append(others, other)
			}
		}
		if l := beyond(total); l != nil {
			b.compiler.ps.At(o.Changes[0].Pos, o.Subject(), fmt.Sprintf("with %s %s, which one object may match too, the rules at %s may "+l.what+" in one run, for up to %d items, at most %d are allowed: %s, or match other objects",
				document.KindOverlay, document.OverlayNames(others), point, l.of(total), lang.MaxItems, l.most, wayOutOfSteps))
		}
	}
}

// costs are those of the points of a pipeline with overlays, which is compiled.
func (b *Rulebook) costs(pipe *document.Pipeline, overlays ...*document.Overlay) map[string]closure.Cost {
	out := map[string]closure.Cost{}
	if plan := b.plans[planKey(pipe, overlays)]; plan != nil {
		for name, at := range plan.Parts().Points {
			out[name] = at.Cost
		}
	}
	return out
}
