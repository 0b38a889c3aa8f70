// Package resolve applies overlays to a pipeline: it finds what a change addresses, applies it,
// records which overlay brought what, and reports changes that do not fit or contradict each other.
package resolve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// Resolved is a pipeline with its rule sets looked up and overlays applied. It shares rule sets
// with the library until an overlay changes them.
type Resolved struct {
	Pipeline *document.Pipeline
	Points   []ResolvedPoint
	Params   map[string]source.Scalar // set by overlays, by "set.param"
	paramsBy map[string]*document.Overlay
	Overlays []*document.Overlay // applied, in order
	disabled map[string]string   // overlay name by disabled path
	Axes     map[string]*lang.Axis
	applying *document.Overlay
}

// ResolvedPoint is a point with the rule sets that run there, in order.
type ResolvedPoint struct {
	Point source.Scalar
	Sets  []placedSet
}

// placedSet is a rule set and where it is named.
type placedSet struct {
	Set *document.RuleSet
	At  source.Scalar

	// By are the overlays that edited Base, in order, to what Set is: sets with the same of both are
	// the same.
	By   []*document.Overlay
	Base *document.RuleSet

	Added *document.Overlay // brought the set; nil = none did
}

// Resolve looks up the rule sets of a pipeline. The compiler reports unknown points.
func Resolve(lib *document.Library, pipe *document.Pipeline, reg *registry.Registry, ps *source.Collector) *Resolved {
	r := &Resolved{Pipeline: pipe, Axes: reg.Axes(), Params: map[string]source.Scalar{}, paramsBy: map[string]*document.Overlay{}, disabled: map[string]string{}}
	for _, at := range pipe.Points {
		point := ResolvedPoint{Point: at.Point}
		for _, name := range at.RuleSets {
			set := lib.RuleSets[name.Value]
			if set == nil {
				ps.At(name, pipe.PointFrom(at.Point.Value).Subject(), notLoaded(name.Value, lib))
				continue
			}
			point.Sets = append(point.Sets, placedSet{Set: set, At: name})
		}
		r.Points = append(r.Points, point)
	}
	for _, a := range pipe.Set {
		key, err := r.paramKey(a.Path.Value)
		if err != nil {
			ps.At(a.Path, pipe.Subject(), err.Error())
			continue
		}
		r.Params[key] = a.Expression
	}
	return r
}

// Clone copies the lists of rule sets, which overlays change in place, but not the rule sets.
func (r *Resolved) Clone() *Resolved {
	c := &Resolved{Pipeline: r.Pipeline, Axes: r.Axes, Params: maps.Clone(r.Params), paramsBy: maps.Clone(r.paramsBy), Overlays: slices.Clone(r.Overlays), disabled: maps.Clone(r.disabled)}
	for _, p := range r.Points {
		c.Points = append(c.Points, ResolvedPoint{Point: p.Point, Sets: slices.Clone(p.Sets)})
	}
	return c
}

// spot is what a path leads to: a rule set or an entry of it.
type spot struct {
	Point, Set int
	Entry      int // index of the stage, decision or validation; -1 = the whole set
	Rule       int // index of the rule in the stage; -1 = the whole entry
	path       string
	value      string // single axis value, if the path names one
}

// Find looks up a path such as set, set@1.0.0/stage/rule or set/stage/rule[memory].
func (r *Resolved) Find(path string) (spot, error) {
	whole, value := lang.CutValue(path)
	at, err := r.findWhole(whole)
	if err != nil || value == "" {
		return at, err
	}
	at.path, at.value = at.path+"["+value+"]", value
	axis := r.axisAt(at)
	if axis == nil {
		return at, fmt.Errorf("%s stands for no axis, so it has no value %q; write %s", whole, value, whole)
	}
	if !slices.Contains(axis.Values, value) {
		return at, fmt.Errorf("%s has no value %q of %s; %s", whole, value, axis.Name, faults.Has(value, axis.Values))
	}
	if left := r.without(at); left != nil && lang.IsLeftOut(*left, value) {
		return at, r.absent(at.path, fmt.Sprintf("%s is without %s already", whole, value))
	}
	return at, nil
}

// axisAt is the axis of the stage or validation at a spot; nil without one.
func (r *Resolved) axisAt(at spot) *lang.Axis {
	set := r.Points[at.Point].Sets[at.Set].Set
	var named []source.Scalar
	switch {
	case at.Entry < 0:
	case len(set.Stages) > 0:
		named = set.Stages[at.Entry].Each
	case len(set.Validations) > 0:
		named = set.Validations[at.Entry].Axes
	}
	for _, name := range named {
		if a := r.Axes[name.Value]; a != nil {
			return a
		}
	}
	return nil
}

// without is the list of axis values that a spot skips; nil where it can skip none.
func (r *Resolved) without(at spot) *[]source.Scalar {
	set := r.Points[at.Point].Sets[at.Set].Set
	switch {
	case at.Entry < 0:
	case at.Rule >= 0:
		return &set.Stages[at.Entry].Rules[at.Rule].Without
	case len(set.Stages) > 0:
		return &set.Stages[at.Entry].Without
	case len(set.Validations) > 0:
		return &set.Validations[at.Entry].Without
	}
	return nil
}

// findWhole is Find for a path without an axis value.
func (r *Resolved) findWhole(path string) (spot, error) {
	parts := strings.Split(path, "/")
	at, err := r.findSet(parts[0])
	if err != nil || len(parts) == 1 {
		return at, err
	}
	set := r.Points[at.Point].Sets[at.Set].Set
	entries := set.Entries()
	at.Entry = slices.Index(entries, parts[1])
	at.path += "/" + parts[1]
	if at.Entry < 0 {
		return at, r.absent(at.path, fmt.Sprintf("rule set %s has no %q; %s", set.ID(), parts[1], faults.Has(parts[1], entries)))
	}
	if len(parts) == 2 {
		return at, nil
	}
	if len(parts) > 3 || len(set.Stages) == 0 {
		return at, fmt.Errorf("%q is too deep: name a rule set, set/stage, set/stage/rule, set/decision or set/validation", path)
	}
	var rules []string
	for _, rule := range set.Stages[at.Entry].Rules {
		rules = append(rules, rule.Name.Value)
	}
	at.Rule = slices.Index(rules, parts[2])
	at.path += "/" + parts[2]
	if at.Rule < 0 {
		return at, r.absent(at.path, fmt.Sprintf("stage %s/%s has no rule %q; %s", set.Name.Value, parts[1], parts[2], faults.Has(parts[2], rules)))
	}
	return at, nil
}

func (r *Resolved) findSet(ref string) (spot, error) {
	name, version, _ := strings.Cut(ref, "@")
	var known []string
	for p, point := range r.Points {
		for s, placed := range point.Sets {
			if placed.Set.Name.Value == name && (version == "" || placed.Set.Version.Value == version) {
				return spot{Point: p, Set: s, Entry: -1, Rule: -1, path: name}, nil
			}
			known = append(known, placed.Set.ID())
		}
	}
	return spot{path: name}, r.absent(name, fmt.Sprintf("pipeline %s has no rule set %q; %s", r.Pipeline.ID(), ref, faults.Has(ref, known)))
}

// absent is the error for an unknown path; it names the overlay that disabled it, if any.
func (r *Resolved) absent(path, message string) error {
	for _, taken := range slices.Sorted(maps.Keys(r.disabled)) {
		if under(path, taken) {
			return fmt.Errorf("%q was disabled by %s %s", taken, document.KindOverlay, r.disabled[taken])
		}
	}
	return fmt.Errorf("%s", message)
}

// Prune removes stages without rules.
func (r *Resolved) Prune() {
	empty := func(s document.Stage) bool { return len(s.Rules) == 0 && s.Solve.IsZero() }
	for p := range r.Points {
		for i, placed := range r.Points[p].Sets {
			if slices.ContainsFunc(placed.Set.Stages, empty) {
				set := r.edit(spot{Point: p, Set: i})
				set.Stages = slices.DeleteFunc(set.Stages, empty)
			}
		}
	}
}

func under(path, above string) bool {
	return path == above || strings.HasPrefix(path, above+"/") || strings.HasPrefix(path, above+"[")
}

// edit replaces the rule set at a spot with a copy to be changed, and returns it.
func (r *Resolved) edit(at spot) *document.RuleSet {
	placed := &r.Points[at.Point].Sets[at.Set]
	if placed.By == nil {
		placed.Base = placed.Set
	}
	if r.applying != nil && (len(placed.By) == 0 || placed.By[len(placed.By)-1] != r.applying) {
		placed.By = append(slices.Clip(placed.By), r.applying)
	}
	c := *placed.Set
	c.Stages, c.Decisions, c.Validations = slices.Clone(c.Stages), slices.Clone(c.Decisions), slices.Clone(c.Validations)
	c.Reads, c.Calls = nil, nil // expressions may change
	placed.Set = &c
	return &c
}

// DigestAt is the digest of what a spot holds, 12 hex digits.
func (r *Resolved) DigestAt(at spot) string {
	set := r.Points[at.Point].Sets[at.Set].Set
	h := NewDigest()
	switch {
	case at.Entry < 0:
		h.ruleSet(set)
	case at.Rule >= 0:
		h.rule(&set.Stages[at.Entry].Rules[at.Rule])
	case len(set.Stages) > 0:
		h.stage(&set.Stages[at.Entry])
	case len(set.Decisions) > 0:
		h.decision(&set.Decisions[at.Entry])
	default:
		h.validation(&set.Validations[at.Entry])
	}
	h.Definitions(r.CalledAt(at))
	return h.String()
}

// CalledAt lists the definitions that what a spot holds calls.
func (r *Resolved) CalledAt(at spot) []*document.Definition {
	return r.Pipeline.CalledBy(r.Points[at.Point].Sets[at.Set].Set.Only(at.Entry, at.Rule))
}

// Called lists the definitions that a rule set calls.
func (r *Resolved) Called() (out []*document.Definition) {
	for _, point := range r.Points {
		for _, placed := range point.Sets {
			out = append(out, r.Pipeline.CalledBy(placed.Set)...)
		}
	}
	return out
}

// SetsAt returns the rule sets with entries at a point, by name.
func (r *Resolved) SetsAt(point string) (names []string, sets map[string]*document.RuleSet) {
	sets = map[string]*document.RuleSet{}
	for _, p := range r.Points {
		if p.Point.Value != point {
			continue
		}
		for _, placed := range p.Sets {
			if len(placed.Set.Entries()) > 0 {
				names = append(names, placed.Set.Name.Value)
				sets[placed.Set.Name.Value] = placed.Set
			}
		}
	}
	return names, sets
}
