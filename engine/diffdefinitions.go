package engine

import (
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/resolve"
)

// definitions compares those of the pipelines. A changed one changes all that calls it.
func (d *differ) definitions() {
	of := func(r *resolve.Resolved) (names []string, byName map[string]*document.Definition) {
		byName = map[string]*document.Definition{}
		for i := range r.Pipeline.Definitions {
			f := &r.Pipeline.Definitions[i]
			names = append(names, f.Name.Value)
			byName[f.Name.Value] = f
		}
		return names, byName
	}
	before, was := of(d.from)
	after, is := of(d.to)
	for _, name := range compareLists(before, after,
		func(name string) { d.say("definition %s is gone", was[name].Signature()) },
		func(name string) { d.say("definition %s is new: %s", is[name].Signature(), is[name].Expression.Value) }) {
		old, now := was[name], is[name]
		if old.Signature() == now.Signature() && old.Expression.Value == now.Expression.Value {
			continue
		}
		from := old.Expression.Value
		if old.Signature() != now.Signature() {
			from = old.Signature() + ": " + from
		}
		d.say("definition %s: %s → %s%s", now.Signature(), from, now.Expression.Value, d.callers(now))
	}
}

// callers names the entries of rule sets that call a definition.
func (d *differ) callers(f *document.Definition) string {
	var out []string
	for _, point := range d.to.Points {
		for _, placed := range point.Sets {
			for i, entry := range placed.Set.Entries() {
				if slices.Contains(d.to.Pipeline.CalledBy(placed.Set.Only(i, -1)), f) {
					out = append(out, placed.Set.Name.Value+"/"+entry)
				}
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ", called by " + strings.Join(slices.Compact(out), ", ")
}
