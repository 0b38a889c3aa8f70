package resolve

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// Apply applies an overlay's changes in order. It reports those that fail and applies the rest.
func (r *Resolved) Apply(o *document.Overlay, lib *document.Library, ps *source.Collector) {
	r.applying = o
	defer func() { r.applying = nil }()
	for i := range o.Changes {
		c := &o.Changes[i]
		verb, path := c.Verb()
		var err error
		at := path
		switch verb {
		case "use": // the rulebook has chosen
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
			ps.At(at, o.Subject(), err.Error())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Params)) {
		if _, err := r.paramKey(key); err == nil {
			continue
		}
		if r.paramsBy[key] == o { // values from earlier overlays go silently
			ps.At(r.Params[key], o.Subject(), fmt.Sprintf("%s is set, but what declares it has been removed", key))
		}
		delete(r.Params, key)
	}
	r.Overlays = append(r.Overlays, o)
}

func (r *Resolved) setParams(o *document.Overlay, params []document.Assignment, ps *source.Collector) {
	for _, p := range params {
		key, err := r.paramKey(p.Path.Value)
		if err != nil {
			ps.At(p.Path, o.Subject(), err.Error())
			continue
		}
		r.Params[key], r.paramsBy[key] = p.Expression, o
	}
}

// paramKey completes the name of a parameter to "set.param".
func (r *Resolved) paramKey(name string) (string, error) {
	set, param, _ := strings.Cut(name, ".") // or a name and an axis value
	var found, known []string
	for _, p := range r.Pipeline.Params {
		known = append(known, p.Name.Value)
		switch {
		case p.Name.Value == name:
			return name, nil
		case p.Name.Value == param:
			return "", fmt.Errorf("%s is shared by all rule sets: write it without %s", param, set)
		}
	}
	for _, point := range r.Points {
		for _, placed := range point.Sets {
			for _, p := range placed.Set.Params {
				key := placed.Set.Name.Value + "." + p.Name.Value
				if !slices.Contains(known, key) { // a set may have several points
					known = append(known, key)
				}
				if (p.Name.Value == name || p.Name.Value == param && set == placed.Set.Name.Value) && !slices.Contains(found, key) {
					found = append(found, key)
				}
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("pipeline %s has no parameter %q; %s", r.Pipeline.ID(), name, faults.Has(name, known))
	}
	return "", fmt.Errorf("several rule sets have a parameter %q; write one of %s", name, strings.Join(found, ", "))
}

// look finds the target of a change and checks the digest that the change expects.
func (r *Resolved) look(path source.Scalar, c *document.Change) (spot, error) {
	at, err := r.Find(path.Value)
	if err != nil {
		return at, err
	}
	if verb, _ := c.Verb(); at.value != "" && verb != "disable" {
		whole, _ := lang.CutValue(at.path)
		return at, fmt.Errorf("one value of an axis can be disabled, but not be %s: disable %s, and put another one with without or with a condition on %s beside %s",
			map[string]string{"replace": "replaced"}[verb]+map[string]string{"before": "an anchor", "after": "an anchor"}[verb], at.path, r.axisAt(at).Name, whole)
	}
	if now := r.DigestAt(at); !c.Digest.IsZero() && c.Digest.Value != now {
		return at, fmt.Errorf("%s is not what this change was written for: its digest is %s, not %s; look at what it is now, "+
			"and when the change still means what it should, write digest: %s", at.path, now, c.Digest.Value, now)
	}
	return at, nil
}

func (r *Resolved) disable(o *document.Overlay, c *document.Change) error {
	at, err := r.look(c.Disable, c)
	if err != nil {
		return err
	}
	r.disabled[at.path] = o.Name.Value
	if at.value != "" && r.leaveOut(at, c.Disable) {
		return nil
	}
	if at.Entry < 0 {
		point := &r.Points[at.Point]
		point.Sets = slices.Delete(point.Sets, at.Set, at.Set+1)
		return nil
	}
	set := r.edit(at)
	if at.Rule >= 0 {
		stage := &set.Stages[at.Entry]
		stage.Rules = slices.Delete(slices.Clone(stage.Rules), at.Rule, at.Rule+1)
		return nil // Prune drops empty stages: later overlays may still add rules
	}
	switch {
	case len(set.Stages) > 0:
		set.Stages = slices.Delete(set.Stages, at.Entry, at.Entry+1)
	case len(set.Decisions) > 0:
		set.Decisions = slices.Delete(set.Decisions, at.Entry, at.Entry+1)
	default:
		set.Validations = slices.Delete(set.Validations, at.Entry, at.Entry+1)
	}
	return nil
}

// leaveOut removes one axis value from a part; false if it is the last one.
func (r *Resolved) leaveOut(at spot, by source.Scalar) bool {
	if len(r.axisAt(at).Values)-len(*r.without(at)) == 1 {
		return false
	}
	by.Value = at.value
	set := r.edit(at)
	if at.Rule >= 0 {
		set.Stages[at.Entry].Rules = slices.Clone(set.Stages[at.Entry].Rules)
	}
	without := r.without(at)
	*without = append(slices.Clone(*without), by)
	return true
}

// kindAt is the kind of what a spot holds, as in Change.Part.
func (r *Resolved) kindAt(at spot) string {
	set := r.Points[at.Point].Sets[at.Set].Set
	switch {
	case at.Entry < 0:
		return "ruleSet"
	case at.Rule >= 0:
		return "rule"
	case len(set.Stages) > 0:
		return "stage"
	case len(set.Decisions) > 0:
		return "decision"
	}
	return "validation"
}

func (r *Resolved) replace(o *document.Overlay, c *document.Change, lib *document.Library) (source.Scalar, error) {
	at, err := r.look(c.Replace, c)
	if err != nil {
		return c.Replace, err
	}
	if kind := r.kindAt(at); kind != c.Part() {
		return c.Replace, fmt.Errorf("%s is a %s; it cannot be replaced by a %s", at.path, kind, c.Part())
	}
	if at.Entry < 0 {
		placed, err := r.placed(c.RuleSet, at.Point, lib)
		if err == nil {
			r.Points[at.Point].Sets[at.Set] = placed
		}
		return c.RuleSet, err
	}
	set := r.edit(at)
	switch {
	case at.Rule >= 0:
		stage := &set.Stages[at.Entry]
		old := stage.Rules[at.Rule]
		stage.Rules = slices.Clone(stage.Rules)
		stage.Rules[at.Rule] = ruleOf(o, c.Rule, old.Name)
	case c.Stage != nil:
		set.Stages[at.Entry] = stageOf(o, c.Stage, set.Stages[at.Entry].Name)
	case c.Decision != nil:
		set.Decisions[at.Entry] = decisionOf(o, c.Decision, set.Decisions[at.Entry].Name)
	default:
		set.Validations[at.Entry] = validationOf(o, c.Validation, set.Validations[at.Entry].Name)
	}
	return c.Replace, nil
}

// insert puts a part before or after a target, or at the beginning or end inside it.
func (r *Resolved) insert(o *document.Overlay, c *document.Change, lib *document.Library) (source.Scalar, error) {
	verb, path := c.Verb()
	at, err := r.look(path, c)
	if err != nil {
		return path, err
	}
	step := 0
	if verb == "after" {
		step = 1
	}
	kind, part := r.kindAt(at), c.Part()
	if kind == "ruleSet" && part == "ruleSet" {
		placed, err := r.placed(c.RuleSet, at.Point, lib)
		if err == nil {
			point := &r.Points[at.Point]
			point.Sets = slices.Insert(point.Sets, at.Set+step, placed)
		}
		return c.RuleSet, err
	}
	set := r.Points[at.Point].Sets[at.Set].Set
	holds := map[string]bool{set.Body: true}
	switch {
	case kind == "rule" && part == "rule", kind == "stage" && part == "rule":
		set = r.edit(at)
		stage := &set.Stages[at.Entry]
		i := at.Rule + step
		if kind == "stage" {
			i = step * len(stage.Rules)
		}
		stage.Rules = slices.Insert(slices.Clone(stage.Rules), i, ruleOf(o, c.Rule, c.Rule.Name))
		return path, nil
	case kind == part, kind == "ruleSet" && holds[part]:
		i := at.Entry + step
		if kind == "ruleSet" {
			i = step * len(set.Entries())
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
	case kind == "ruleSet" && part == "rule" && set.Body == "stage":
		return path, fmt.Errorf("%s is a rule set; a rule goes %s one of its stages or rules: %s/%s, …", at.path, verb, at.path, strings.Join(set.Entries(), ", "+at.path+"/"))
	case kind == "ruleSet":
		return path, fmt.Errorf("%s holds %s; it has no place for a %s", at.path, set.Body+"s", part)
	}
	wayOut := ""
	for outer := at.path; wayOut == "" && strings.Contains(outer, "/"); {
		outer = outer[:strings.LastIndex(outer, "/")]
		if (part == "ruleSet") == !strings.Contains(outer, "/") { // a stage may stand around a rule
			wayOut = fmt.Sprintf(": write %s: %s, or bring a %s instead", verb, outer, kind)
		}
	}
	return path, fmt.Errorf("%s is a %s; a %s has no place %s it%s", at.path, kind, part, verb, wayOut)
}

// add puts a rule set last at its point.
func (r *Resolved) add(ref source.Scalar, lib *document.Library) error {
	set := lib.RuleSets[ref.Value]
	if set == nil {
		return noRuleSet(ref, lib)
	}
	for i := range r.Points {
		if r.Points[i].Point.Value == set.Point.Value {
			placed, err := r.placed(ref, i, lib)
			if err == nil {
				r.Points[i].Sets = append(r.Points[i].Sets, placed)
			}
			return err
		}
	}
	return fmt.Errorf("pipeline %s does not name the point %s of rule set %s", r.Pipeline.ID(), set.Point.Value, set.ID())
}

// placed looks up a rule set that an overlay brings to a point.
func (r *Resolved) placed(ref source.Scalar, point int, lib *document.Library) (placedSet, error) {
	set := lib.RuleSets[ref.Value]
	if set == nil {
		return placedSet{}, noRuleSet(ref, lib)
	}
	if at := r.Points[point].Point.Value; set.Point.Value != at {
		return placedSet{}, fmt.Errorf("rule set %s plugs in at %s, not at %s", set.ID(), set.Point.Value, at)
	}
	return placedSet{Set: set, At: ref, Added: r.applying}, nil
}

func noRuleSet(ref source.Scalar, lib *document.Library) error {
	return errors.New(notLoaded(ref.Value, lib))
}

// stageOf, ruleOf, decisionOf and validationOf set the name and the source overlay of a part.

func stageOf(o *document.Overlay, s *document.Stage, name source.Scalar) document.Stage {
	c := *s
	c.Name, c.Overlay = named(s.Name, name), o.Name.Value
	c.Rules = slices.Clone(c.Rules)
	for i := range c.Rules {
		c.Rules[i].Overlay = o.Name.Value
	}
	return c
}

func ruleOf(o *document.Overlay, r *document.Rule, name source.Scalar) document.Rule {
	c := *r
	c.Name, c.Overlay = named(r.Name, name), o.Name.Value
	return c
}

func decisionOf(o *document.Overlay, x *document.Decision, name source.Scalar) document.Decision {
	c := *x
	c.Name, c.Overlay = named(x.Name, name), o.Name.Value
	return c
}

func validationOf(o *document.Overlay, v *document.Validation, name source.Scalar) document.Validation {
	c := *v
	c.Name, c.Overlay = named(v.Name, name), o.Name.Value
	return c
}

// named is the part's own name, or the replaced name at the position of the replacement.
func named(own, replaced source.Scalar) source.Scalar {
	if own.Value != "" {
		return own
	}
	own.Value = replaced.Value
	return own
}

// notLoaded says that there is no such rule set. There may be many, so it names those that are near.
func notLoaded(id string, lib *document.Library) string {
	return fmt.Sprintf("no rule set %q; %swrite it as name@version; celvpa rules list has all", id, faults.Near(id, lib.RuleSetIDs()))
}
