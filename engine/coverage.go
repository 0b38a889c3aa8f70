package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// outcome is what a rule came to: its condition held or did not, or an object fulfilled or violated it.
type outcome string

const (
	held      outcome = "held"
	notHeld   outcome = "not held"
	fulfilled outcome = "fulfilled"
	violated  outcome = "violated"
	errored   outcome = "errored" // at run time; it counts for no branch
)

// Coverage collects which outcomes of rules a number of runs reached; hand it in through a Trace. A nil *Coverage
// collects nothing. It belongs to one goroutine.
type Coverage struct {
	reached map[coverKey]bool
	ranAt   []coverRun // each once
}

// coverKey names an outcome by the path of its rule. It holds names only: what ran may have been compiled many times.
type coverKey struct {
	set, stage, rule string // set is name@version; rule is empty for a stage, stage for what has none
	value            string // of the axis, as an address ends; empty = no axis
	overlay          string // that brought it; empty = none
	outcome          outcome
}

// NewCoverage returns an empty collection.
func NewCoverage() *Coverage {
	return &Coverage{reached: map[coverKey]bool{}}
}

// cover notes what a stage, rule or decision came to. A rule held when it also did what it is there for.
func (t *Trace) cover(at *origin, o outcome) {
	if t.Coverage == nil {
		return
	}
	rule := at.rule
	if rule == stageCondition {
		rule = ""
	}
	t.Coverage.note(at.set, at.stage, rule, at.axis, at.overlay, o)
}

// note notes that a stage, rule, decision or validation came to an outcome, for a value of its axis.
func (c *Coverage) note(set *SetPlan, stage, rule string, axis *lang.AxisValue, overlay string, o outcome) {
	if c != nil {
		c.reached[coverKey{set.RuleSet.ID(), stage, rule, axis.Suffix(), overlay, o}] = true
	}
}

// coverRun is a plan that ran at a point.
type coverRun struct {
	plan  *Plan
	point string
}

// Ran notes that a plan was run, which puts the rule sets of the point into the report, with what overlays brought to
// them.
func (c *Coverage) Ran(plan *Plan, point string) {
	if run := (coverRun{plan, point}); !slices.Contains(c.ranAt, run) {
		c.ranAt = append(c.ranAt, run)
	}
}

// CoverageReport says how much of the rule sets of some pipelines was reached.
type CoverageReport struct {
	Sets      []SetCoverage
	Unreached []Unreached
}

// SetCoverage counts the outcomes of one rule set: each rule, decision and branch is one, a validation two, and all of them once for each
// value of an axis.
type SetCoverage struct {
	RuleSet string `json:"ruleSet"` // name@version
	Reached int    `json:"reached"`
	Total   int    `json:"total"`
}

// Unreached is an outcome that nothing reached.
type Unreached struct {
	Kind string          `json:"kind"` // rule, branch, decision or validation
	Path string          `json:"path"` // set/stage/rule, without what there is not
	What string          `json:"what"` // e.g. "its condition was never false"
	At   source.Position `json:"-"`
}

// Report compares what was reached with all that the rule sets at the points that ran can come to, by rule set.
func (c *Coverage) Report() CoverageReport {
	reports := map[string]*setReport{}
	for _, run := range c.ranAt {
		for _, point := range run.plan.parts.Resolved.Points {
			if point.Point.Value != run.point {
				continue
			}
			for _, placed := range point.Sets {
				id := placed.Set.ID()
				if reports[id] == nil {
					reports[id] = &setReport{coverage: c, wanted: map[coverKey]bool{}, counts: SetCoverage{RuleSet: id}}
				}
				reports[id].walk(placed.Set, run.plan.parts.Resolved.Axes)
			}
		}
	}
	var out CoverageReport
	for _, id := range slices.Sorted(maps.Keys(reports)) {
		if s := reports[id]; s.counts.Total > 0 {
			out.Sets = append(out.Sets, s.counts)
			out.Unreached = append(out.Unreached, s.unreached...)
		}
	}
	return out
}

// setReport counts the outcomes of one rule set, of which plans may have variants that overlays made.
type setReport struct {
	coverage  *Coverage
	wanted    map[coverKey]bool // counted already
	counts    SetCoverage
	unreached []Unreached
	value     string // of the axis at hand, as an address ends
}

func (s *setReport) walk(set *document.RuleSet, axes map[string]*lang.Axis) {
	for _, st := range set.Stages {
		stage := st.Name.Value
		for _, s.value = range suffixes(axes, st.Each, st.Without) {
			if !st.When.IsZero() {
				s.want("branch", stage, "", st.Overlay, held, st.When, "its condition was never true")
				s.want("branch", stage, "", st.Overlay, notHeld, st.When, "its condition was never false")
			}
		}
		for _, r := range st.Rules {
			for _, s.value = range suffixes(axes, st.Each, slices.Concat(st.Without, r.Without)) {
				s.want("rule", stage, r.Name.Value, r.Overlay, held, r.Name, "it never ran")
				if !r.When.IsZero() {
					s.want("branch", stage, r.Name.Value, r.Overlay, notHeld, r.When, "its condition was never false")
				}
			}
		}
	}
	s.value = ""
	for _, d := range set.Decisions {
		s.want("decision", "", d.Name.Value, d.Overlay, held, d.Name, "it was never taken")
		if !d.When.IsZero() {
			s.want("branch", "", d.Name.Value, d.Overlay, notHeld, d.When, "its condition was never false")
		}
	}
	for _, v := range set.Validations {
		for _, s.value = range suffixes(axes, v.Axes, v.Without) {
			s.want("validation", "", v.Name.Value, v.Overlay, fulfilled, v.Name, "nothing fulfilled it")
			s.want("validation", "", v.Name.Value, v.Overlay, violated, v.Name, "nothing violated it")
			if !v.When.IsZero() {
				s.want("branch", "", v.Name.Value, v.Overlay, notHeld, v.When, "its condition was never false")
			}
		}
	}
}

// suffixes are the ends of addresses of all values of the axis that is named, but for those that are left out; without an axis
// there is one that is empty.
func suffixes(axes map[string]*lang.Axis, named, without []source.Scalar) []string {
	for _, name := range named {
		if axis := axes[name.Value]; axis != nil {
			var out []string
			for _, value := range axis.Values {
				if !lang.IsLeftOut(without, value) {
					out = append(out, (&lang.AxisValue{Axis: axis, Value: value}).Suffix())
				}
			}
			return out
		}
	}
	return []string{""}
}

func (s *setReport) want(kind, stage, rule, overlay string, o outcome, at source.Scalar, what string) {
	key := coverKey{s.counts.RuleSet, stage, rule, s.value, overlay, o}
	if s.wanted[key] {
		return
	}
	s.wanted[key] = true
	s.counts.Total++
	if s.coverage.reached[key] {
		s.counts.Reached++
		return
	}
	path, _, _ := strings.Cut(s.counts.RuleSet, "@")
	for _, part := range []string{stage, rule} {
		if part != "" {
			path += "/" + part
		}
	}
	path += s.value
	s.unreached = append(s.unreached, Unreached{Kind: kind, Path: path, What: what, At: at.Pos})
}
