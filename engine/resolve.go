package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// resolved is a pipeline with its rule sets looked up and overlays applied. Rule sets are shared with the library until
// an overlay changes them.
type resolved struct {
	pipeline *Pipeline
	points   []resolvedPoint
	params   map[string]Scalar // set by overlays, by "set.param"
	paramsBy map[string]*Overlay
	overlays []*Overlay        // applied, in order
	disabled map[string]string // path of what an overlay took away, to the overlay's name
	axes     map[string]*Axis
}

type resolvedPoint struct {
	point Scalar
	sets  []placedSet
}

// placedSet is a rule set and where it was put into the pipeline.
type placedSet struct {
	set *RuleSet
	at  Scalar
}

// resolve looks up what a pipeline names. Points that do not exist are left to the compiler.
func resolve(lib *Library, pipe *Pipeline, reg *Registry, ps *problems) *resolved {
	r := &resolved{pipeline: pipe, axes: reg.axes, params: map[string]Scalar{}, paramsBy: map[string]*Overlay{}, disabled: map[string]string{}}
	for _, at := range pipe.Points {
		point := resolvedPoint{point: at.Point}
		for _, name := range at.RuleSets {
			set := lib.RuleSets[name.Value]
			if set == nil {
				ps.at(name, "Pipeline "+pipe.ID(), fmt.Sprintf("no rule set %q; write it as name@version, loaded: %s", name.Value, strings.Join(lib.RuleSetIDs(), ", ")))
				continue
			}
			point.sets = append(point.sets, placedSet{set: set, at: name})
		}
		r.points = append(r.points, point)
	}
	return r
}

// clone copies what overlays may change in place: the lists of rule sets, not the rule sets.
func (r *resolved) clone() *resolved {
	c := &resolved{pipeline: r.pipeline, axes: r.axes, params: maps.Clone(r.params), paramsBy: maps.Clone(r.paramsBy), overlays: slices.Clone(r.overlays), disabled: maps.Clone(r.disabled)}
	for _, p := range r.points {
		c.points = append(c.points, resolvedPoint{point: p.point, sets: slices.Clone(p.sets)})
	}
	return c
}

// spot is where a path leads: a rule set and, unless it names the whole set, an entry of it.
type spot struct {
	point, set int
	entry      int // index of the stage, decision or validation; -1 = the whole set
	rule       int // index of the rule in the stage; -1 = the whole entry
	path       string
	value      string // of the axis, where one value alone is meant
}

// find looks up a path such as set, set@1.0.0/stage/rule, set/stage/rule[memory]. The error says what is there instead.
func (r *resolved) find(path string) (spot, error) {
	whole, value := cutValue(path)
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
		return at, fmt.Errorf("%s has no value %q of %s; it has %s", whole, value, axis.Name, strings.Join(axis.Values, ", "))
	}
	if left := r.without(at); left != nil && isLeftOut(*left, value) {
		return at, r.absent(at.path, fmt.Sprintf("%s is without %s already", whole, value))
	}
	return at, nil
}

// axisAt is the axis of the stage or validation at a place, or of the stage that the rule there stands in; nil without one.
func (r *resolved) axisAt(at spot) *Axis {
	set := r.points[at.point].sets[at.set].set
	var named []Scalar
	switch {
	case at.entry < 0:
	case len(set.Stages) > 0:
		named = set.Stages[at.entry].Each
	case len(set.Validations) > 0:
		named = set.Validations[at.entry].Axes
	}
	for _, name := range named {
		if a := r.axes[name.Value]; a != nil {
			return a
		}
	}
	return nil
}

// without is the list of the values that what is at a place is left out for; nil where nothing can be.
func (r *resolved) without(at spot) *[]Scalar {
	set := r.points[at.point].sets[at.set].set
	switch {
	case at.entry < 0:
	case at.rule >= 0:
		return &set.Stages[at.entry].Rules[at.rule].Without
	case len(set.Stages) > 0:
		return &set.Stages[at.entry].Without
	case len(set.Validations) > 0:
		return &set.Validations[at.entry].Without
	}
	return nil
}

// findWhole is find for a path that means all values of an axis.
func (r *resolved) findWhole(path string) (spot, error) {
	parts := strings.Split(path, "/")
	at, err := r.findSet(parts[0])
	if err != nil || len(parts) == 1 {
		return at, err
	}
	set := r.points[at.point].sets[at.set].set
	entries := set.entries()
	at.entry = slices.Index(entries, parts[1])
	at.path += "/" + parts[1]
	if at.entry < 0 {
		return at, r.absent(at.path, fmt.Sprintf("rule set %s has no %q; it has %s", set.ID(), parts[1], strings.Join(entries, ", ")))
	}
	if len(parts) == 2 {
		return at, nil
	}
	if len(parts) > 3 || len(set.Stages) == 0 {
		return at, fmt.Errorf("%q is too deep: name a rule set, set/stage, set/stage/rule, set/decision or set/validation", path)
	}
	var rules []string
	for _, one := range set.Stages[at.entry].Rules {
		rules = append(rules, one.Name.Value)
	}
	at.rule = slices.Index(rules, parts[2])
	at.path += "/" + parts[2]
	if at.rule < 0 {
		return at, r.absent(at.path, fmt.Sprintf("stage %s/%s has no rule %q; it has %s", set.Name.Value, parts[1], parts[2], strings.Join(rules, ", ")))
	}
	return at, nil
}

func (r *resolved) findSet(ref string) (spot, error) {
	name, version, _ := strings.Cut(ref, "@")
	var known []string
	for p, point := range r.points {
		for s, placed := range point.sets {
			if placed.set.Name.Value == name && (version == "" || placed.set.Version.Value == version) {
				return spot{point: p, set: s, entry: -1, rule: -1, path: name}, nil
			}
			known = append(known, placed.set.ID())
		}
	}
	return spot{path: name}, r.absent(name, fmt.Sprintf("pipeline %s has no rule set %q; it has %s", r.pipeline.ID(), ref, strings.Join(known, ", ")))
}

// absent says that a path leads nowhere, and when an overlay is the reason, which.
func (r *resolved) absent(path, message string) error {
	for _, taken := range slices.Sorted(maps.Keys(r.disabled)) {
		if under(path, taken) {
			return fmt.Errorf("%q was disabled by %s %s", taken, KindOverlay, r.disabled[taken])
		}
	}
	return fmt.Errorf("%s", message)
}

// prune takes out stages of which overlays left no rule.
func (r *resolved) prune() {
	empty := func(s Stage) bool { return len(s.Rules) == 0 }
	for p := range r.points {
		for i, placed := range r.points[p].sets {
			if slices.ContainsFunc(placed.set.Stages, empty) {
				set := r.edit(spot{point: p, set: i})
				set.Stages = slices.DeleteFunc(set.Stages, empty)
			}
		}
	}
}

// under reports whether a path is another one or below it.
func under(path, above string) bool {
	return path == above || strings.HasPrefix(path, above+"/") || strings.HasPrefix(path, above+"[")
}

// edit gives a copy of the rule set at a place that may be changed, with its own lists.
func (r *resolved) edit(at spot) *RuleSet {
	placed := &r.points[at.point].sets[at.set]
	c := *placed.set
	c.Stages, c.Decisions, c.Validations = slices.Clone(c.Stages), slices.Clone(c.Decisions), slices.Clone(c.Validations)
	c.reads = nil // whoever asked for it changes expressions
	placed.set = &c
	return &c
}

// digestAt identifies the content of what a path names. Hex, 12 digits.
func (r *resolved) digestAt(at spot) string {
	set := r.points[at.point].sets[at.set].set
	h := newDigest()
	switch {
	case at.entry < 0:
		h.ruleSet(set)
	case at.rule >= 0:
		h.rule(&set.Stages[at.entry].Rules[at.rule])
	case len(set.Stages) > 0:
		h.stage(&set.Stages[at.entry])
	case len(set.Decisions) > 0:
		h.decision(&set.Decisions[at.entry])
	default:
		h.validation(&set.Validations[at.entry])
	}
	return h.String()
}

// setsAt are the rule sets that do something at a point, by name.
func (r *resolved) setsAt(point string) (names []string, sets map[string]*RuleSet) {
	sets = map[string]*RuleSet{}
	for _, p := range r.points {
		if p.point.Value != point {
			continue
		}
		for _, placed := range p.sets {
			if len(placed.set.entries()) > 0 {
				names = append(names, placed.set.Name.Value)
				sets[placed.set.Name.Value] = placed.set
			}
		}
	}
	return names, sets
}
