package resolve

import (
	"fmt"
	"strings"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// touch is one path that an overlay changes or depends on.
type touch struct {
	kind touchKind
	path string        // set, set/stage, set/stage/rule, …; set.param for parameters
	at   source.Scalar // position in the overlay
}

type touchKind int

const (
	takes   touchKind = iota // disables or replaces what is at the path
	brings                   // puts something new at the path
	anchors                  // needs the path to stay where it is
	sets                     // sets a parameter
)

// touches lists what an overlay changes in a pipeline, without unknown paths, which Apply reports.
func (r *Resolved) touches(o *document.Overlay) []touch {
	var out []touch
	for i := range o.Changes {
		c := &o.Changes[i]
		verb, path := c.Verb()
		switch verb {
		case "use":
		case "params":
			for _, p := range c.Params {
				if key, err := r.paramKey(p.Path.Value); err == nil {
					out = append(out, touch{sets, key, p.Path})
				}
			}
		case "add":
			out = append(out, touch{brings, setName(c.Add.Value), path})
		default:
			at, err := r.Find(path.Value)
			if err != nil {
				continue
			}
			if verb == "disable" || verb == "replace" {
				out = append(out, touch{takes, at.path, path})
				if name := c.Name().Value; verb == "replace" && name != "" {
					out = append(out, touch{brings, renamed(at.path, name), path})
				}
				continue
			}
			out = append(out, touch{anchors, at.path, path}, touch{brings, r.broughtPath(at, c), path})
		}
	}
	return out
}

func (r *Resolved) broughtPath(at spot, c *document.Change) string {
	set := r.Points[at.Point].Sets[at.Set].Set.Name.Value
	switch {
	case c.Part() == "ruleSet":
		return setName(c.RuleSet.Value)
	case c.Part() == "rule" && at.Entry >= 0:
		return set + "/" + r.Points[at.Point].Sets[at.Set].Set.Entries()[at.Entry] + "/" + c.Rule.Name.Value
	}
	return set + "/" + c.Name().Value
}

// renamed is the path of a replacement under its own name.
func renamed(path, name string) string {
	if i := strings.LastIndex(path, "/"); i >= 0 {
		return path[:i+1] + name
	}
	return setName(name)
}

// setName is the name in name@version.
func setName(ref string) string {
	name, _, _ := strings.Cut(ref, "@")
	return name
}

// Meet reports whether two overlays change one rule set: they may fit alone but not together.
func (r *Resolved) Meet(a, b *document.Overlay) bool {
	setOf := func(t touch) string {
		if t.kind == sets {
			return setOfParam(t.path)
		}
		set, _, _ := strings.Cut(t.path, "/")
		return set
	}
	mine := r.touches(a)
	for _, theirs := range r.touches(b) {
		for _, t := range mine {
			if (t.kind != sets || theirs.kind != sets) && setOf(t) == setOf(theirs) {
				return true
			}
		}
	}
	return false
}

// Mix reports whether two overlays that meet change one stage, decision or validation, or a
// parameter and what may read it. All others compile together when each compiles alone, because
// entries of a rule set know nothing of each other.
func (r *Resolved) Mix(a, b *document.Overlay) bool {
	mine := r.touches(a)
	for _, theirs := range r.touches(b) {
		for _, t := range mine {
			if t.kind == anchors || theirs.kind == anchors || t.kind == sets && theirs.kind == sets {
				continue
			}
			if ours, other := t.entry(), theirs.entry(); under(ours, other) || under(other, ours) {
				return true
			}
		}
	}
	return false
}

// entry is the stage, decision or validation that is touched, or the whole rule set.
func (t touch) entry() string {
	if t.kind == sets {
		return setOfParam(t.path)
	}
	parts := strings.SplitN(t.path, "/", 3)
	whole, _ := lang.CutValue(strings.Join(parts[:min(len(parts), 2)], "/"))
	return whole
}

// clash reports whether two touches contradict each other.
func (t touch) clash(other touch) bool {
	switch {
	case t.kind == sets || other.kind == sets:
		if t.kind == other.kind {
			return t.path == other.path
		}
		// A removed rule set takes its parameters with it.
		param, whole := t, other
		if other.kind == sets {
			param, whole = other, t
		}
		return whole.kind == takes && setOfParam(param.path) == whole.path
	case t.kind == takes && other.kind == takes:
		return under(t.path, other.path) || under(other.path, t.path)
	case t.kind == takes:
		return under(other.path, t.path)
	case other.kind == takes:
		return under(t.path, other.path)
	}
	return t.kind == brings && other.kind == brings && t.path == other.path
}

// setOfParam is the rule set of a parameter; for a shared one, a name that no rule set has.
func setOfParam(path string) string {
	set, _, _ := strings.Cut(path, ".")
	return set
}

// Rivals reports whether two overlays may match one object, at one priority, and not both are only tried.
func Rivals(a, b *document.Overlay) bool {
	return a.PriorityOf() == b.PriorityOf() && a.Match.Overlaps(&b.Match) && (a.ModeOf() == document.ModeEnforce || b.ModeOf() == document.ModeEnforce)
}

// Conflict reports what two overlays of equal priority both change, if one object may match both:
// which one wins would depend on their names.
func (r *Resolved) Conflict(a, b *document.Overlay, ps *source.Collector) {
	if !Rivals(a, b) {
		return
	}
	others := r.touches(a)
	for _, mine := range r.touches(b) {
		for _, theirs := range others {
			if mine.clash(theirs) {
				ps.At(mine.at, b.Subject(), fmt.Sprintf("it changes %s, and so does %s %s at %s, for objects that both may match: "+
					"give them different priorities (the higher one wins), or match different objects",
					mine.path, document.KindOverlay, a.Name.Value, theirs.at.Pos))
				return
			}
		}
	}
}
