package compile

import (
	"fmt"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/resolve"
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
