package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// apply makes the changes of an overlay, in order. What cannot be done is a problem where it stands; the rest is done.
func (r *resolved) apply(o *Overlay, lib *Library, ps *problems) {
	for i := range o.Changes {
		c := &o.Changes[i]
		verb, path := c.verb()
		var err error
		at := path
		switch verb {
		case "params":
			r.setParams(o, c.Params, ps)
		case "disable":
			err = r.disable(o, c)
		case "replace":
			at, err = r.replace(o, c, lib)
		case "add":
			err = r.add(c.Add, lib)
		default:
			at, err = r.insert(o, c, lib)
		}
		if err != nil {
			ps.at(at, o.subject(), err.Error())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.params)) {
		if _, err := r.paramKey(key); err == nil {
			continue
		}
		if r.paramsBy[key] == o { // what an overlay before it set is overruled
			ps.at(r.params[key], o.subject(), fmt.Sprintf("%s is set, and what has it is taken out", key))
		}
		delete(r.params, key)
	}
	r.overlays = append(r.overlays, o)
}

func (r *resolved) setParams(o *Overlay, params []Assignment, ps *problems) {
	for _, p := range params {
		key, err := r.paramKey(p.Path.Value)
		if err != nil {
			ps.at(p.Path, o.subject(), err.Error())
			continue
		}
		r.params[key], r.paramsBy[key] = p.Expression, o
	}
}

// paramKey completes the name of a parameter to "set.param".
func (r *resolved) paramKey(name string) (string, error) {
	set, param, _ := strings.Cut(name, ".") // unless it is one of several values
	var found, known []string
	for _, p := range r.pipeline.Params {
		known = append(known, p.Name.Value)
		switch {
		case p.Name.Value == name:
			return name, nil
		case p.Name.Value == param:
			return "", fmt.Errorf("%s is shared by all rule sets: write it without %s", param, set)
		}
	}
	for _, point := range r.points {
		for _, placed := range point.sets {
			for _, p := range placed.set.Params {
				key := placed.set.Name.Value + "." + p.Name.Value
				known = append(known, key)
				if (p.Name.Value == name || p.Name.Value == param && set == placed.set.Name.Value) && !slices.Contains(found, key) {
					found = append(found, key)
				}
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("pipeline %s has no parameter %q; it has %s", r.pipeline.ID(), name, strings.Join(known, ", "))
	}
	return "", fmt.Errorf("several rule sets have a parameter %q; write one of %s", name, strings.Join(found, ", "))
}

// look finds what a change is about, and holds its content against the digest that the author wrote down.
func (r *resolved) look(path Scalar, c *Change) (spot, error) {
	at, err := r.find(path.Value)
	if err != nil {
		return at, err
	}
	if verb, _ := c.verb(); at.value != "" && verb != "disable" {
		whole, _ := cutValue(at.path)
		return at, fmt.Errorf("one value of an axis can be disabled, but not be %s: disable %s, and put another one with without or with a condition on %s beside %s",
			map[string]string{"replace": "replaced"}[verb]+map[string]string{"before": "an anchor", "after": "an anchor"}[verb], at.path, r.axisAt(at).Name, whole)
	}
	if now := r.digestAt(at); !c.Digest.IsZero() && c.Digest.Value != now {
		return at, fmt.Errorf("%s is not what this change was written for: its digest is %s, not %s; look at what it is now, "+
			"and when the change still means what it should, write digest: %s", at.path, now, c.Digest.Value, now)
	}
	return at, nil
}

func (r *resolved) disable(o *Overlay, c *Change) error {
	at, err := r.look(c.Disable, c)
	if err != nil {
		return err
	}
	r.disabled[at.path] = o.Name.Value
	if at.value != "" && r.leaveOut(at, c.Disable) {
		return nil
	}
	if at.entry < 0 {
		point := &r.points[at.point]
		point.sets = slices.Delete(point.sets, at.set, at.set+1)
		return nil
	}
	set := r.edit(at)
	if at.rule >= 0 {
		stage := &set.Stages[at.entry]
		stage.Rules = slices.Delete(slices.Clone(stage.Rules), at.rule, at.rule+1)
		return nil // a stage without rules goes when all overlays are applied: until then others may add to it
	}
	switch {
	case len(set.Stages) > 0:
		set.Stages = slices.Delete(set.Stages, at.entry, at.entry+1)
	case len(set.Decisions) > 0:
		set.Decisions = slices.Delete(set.Decisions, at.entry, at.entry+1)
	default:
		set.Validations = slices.Delete(set.Validations, at.entry, at.entry+1)
	}
	return nil
}

// leaveOut takes one value of an axis from what is at a place; false when it was the last, so that nothing is left of it.
func (r *resolved) leaveOut(at spot, by Scalar) bool {
	if len(r.axisAt(at).Values)-len(*r.without(at)) == 1 {
		return false
	}
	by.Value = at.value
	set := r.edit(at)
	if at.rule >= 0 {
		set.Stages[at.entry].Rules = slices.Clone(set.Stages[at.entry].Rules)
	}
	without := r.without(at)
	*without = append(slices.Clone(*without), by)
	return true
}

// kindAt is what a place holds, in the words of a change's part.
func (r *resolved) kindAt(at spot) string {
	set := r.points[at.point].sets[at.set].set
	switch {
	case at.entry < 0:
		return "ruleSet"
	case at.rule >= 0:
		return "rule"
	case len(set.Stages) > 0:
		return "stage"
	case len(set.Decisions) > 0:
		return "decision"
	}
	return "validation"
}

func (r *resolved) replace(o *Overlay, c *Change, lib *Library) (Scalar, error) {
	at, err := r.look(c.Replace, c)
	if err != nil {
		return c.Replace, err
	}
	if kind := r.kindAt(at); kind != c.part() {
		return c.Replace, fmt.Errorf("%s is a %s; it cannot be replaced by a %s", at.path, kind, c.part())
	}
	if at.entry < 0 {
		placed, err := r.placed(c.RuleSet, at.point, lib)
		if err == nil {
			r.points[at.point].sets[at.set] = placed
		}
		return c.RuleSet, err
	}
	set := r.edit(at)
	switch {
	case at.rule >= 0:
		stage := &set.Stages[at.entry]
		old := stage.Rules[at.rule]
		stage.Rules = slices.Clone(stage.Rules)
		stage.Rules[at.rule] = ruleOf(o, c.Rule, old.Name)
	case c.Stage != nil:
		set.Stages[at.entry] = stageOf(o, c.Stage, set.Stages[at.entry].Name)
	case c.Decision != nil:
		set.Decisions[at.entry] = decisionOf(o, c.Decision, set.Decisions[at.entry].Name)
	default:
		set.Validations[at.entry] = validationOf(o, c.Validation, set.Validations[at.entry].Name)
	}
	return c.Replace, nil
}

// insert puts a part beside what before or after names, or at the beginning or end inside it.
func (r *resolved) insert(o *Overlay, c *Change, lib *Library) (Scalar, error) {
	verb, path := c.verb()
	at, err := r.look(path, c)
	if err != nil {
		return path, err
	}
	step := 0
	if verb == "after" {
		step = 1
	}
	kind, part := r.kindAt(at), c.part()
	if kind == "ruleSet" && part == "ruleSet" {
		placed, err := r.placed(c.RuleSet, at.point, lib)
		if err == nil {
			point := &r.points[at.point]
			point.sets = slices.Insert(point.sets, at.set+step, placed)
		}
		return c.RuleSet, err
	}
	set := r.points[at.point].sets[at.set].set
	holds := map[string]bool{set.body: true}
	switch {
	case kind == "rule" && part == "rule", kind == "stage" && part == "rule":
		set = r.edit(at)
		stage := &set.Stages[at.entry]
		i := at.rule + step
		if kind == "stage" {
			i = step * len(stage.Rules)
		}
		stage.Rules = slices.Insert(slices.Clone(stage.Rules), i, ruleOf(o, c.Rule, c.Rule.Name))
		return path, nil
	case kind == part, kind == "ruleSet" && holds[part]:
		i := at.entry + step
		if kind == "ruleSet" {
			i = step * len(set.entries())
		}
		set = r.edit(at)
		switch part {
		case "stage":
			set.Stages = slices.Insert(set.Stages, i, stageOf(o, c.Stage, c.Stage.Name))
		case "decision":
			set.Decisions = slices.Insert(set.Decisions, i, decisionOf(o, c.Decision, c.Decision.Name))
		default:
			set.Validations = slices.Insert(set.Validations, i, validationOf(o, c.Validation, c.Validation.Name))
		}
		return path, nil
	}
	switch {
	case kind == "ruleSet" && part == "rule" && set.body == "stage":
		return path, fmt.Errorf("%s is a rule set; a rule goes %s one of its stages or rules: %s/%s, …", at.path, verb, at.path, strings.Join(set.entries(), ", "+at.path+"/"))
	case kind == "ruleSet":
		return path, fmt.Errorf("%s holds %s; it has no place for a %s", at.path, set.body+"s", part)
	}
	return path, fmt.Errorf("%s is a %s; a %s has no place %s it", at.path, kind, part, verb)
}

// add puts a rule set last at its point.
func (r *resolved) add(ref Scalar, lib *Library) error {
	set := lib.RuleSets[ref.Value]
	if set == nil {
		return noRuleSet(ref, lib)
	}
	for i := range r.points {
		if r.points[i].point.Value == set.Point.Value {
			placed, err := r.placed(ref, i, lib)
			if err == nil {
				r.points[i].sets = append(r.points[i].sets, placed)
			}
			return err
		}
	}
	return fmt.Errorf("pipeline %s does not name the point %s of rule set %s", r.pipeline.ID(), set.Point.Value, set.ID())
}

// placed looks up a rule set that an overlay brings to a point.
func (r *resolved) placed(ref Scalar, point int, lib *Library) (placedSet, error) {
	set := lib.RuleSets[ref.Value]
	if set == nil {
		return placedSet{}, noRuleSet(ref, lib)
	}
	if at := r.points[point].point.Value; set.Point.Value != at {
		return placedSet{}, fmt.Errorf("rule set %s plugs in at %s, not at %s", set.ID(), set.Point.Value, at)
	}
	return placedSet{set: set, at: ref}, nil
}

func noRuleSet(ref Scalar, lib *Library) error {
	return fmt.Errorf("no rule set %q; write it as name@version, loaded: %s", ref.Value, strings.Join(lib.RuleSetIDs(), ", "))
}

// stageOf, ruleOf, decisionOf and validationOf give a part its name and note whose it is.

func stageOf(o *Overlay, s *Stage, name Scalar) Stage {
	c := *s
	c.Name, c.Overlay = named(s.Name, name), o.Name.Value
	c.Rules = slices.Clone(c.Rules)
	for i := range c.Rules {
		c.Rules[i].Overlay = o.Name.Value
	}
	return c
}

func ruleOf(o *Overlay, r *Rule, name Scalar) Rule {
	c := *r
	c.Name, c.Overlay = named(r.Name, name), o.Name.Value
	return c
}

func decisionOf(o *Overlay, x *Decision, name Scalar) Decision {
	c := *x
	c.Name, c.Overlay = named(x.Name, name), o.Name.Value
	return c
}

func validationOf(o *Overlay, v *Validation, name Scalar) Validation {
	c := *v
	c.Name, c.Overlay = named(v.Name, name), o.Name.Value
	return c
}

// named is the part's own name, or the name of what it replaces at the place of the replacement.
func named(own, replaced Scalar) Scalar {
	if own.Value != "" {
		return own
	}
	own.Value = replaced.Value
	return own
}
