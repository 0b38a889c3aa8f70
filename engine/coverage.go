package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// outcome is the result of a condition (held, not held) or a validation (fulfilled, violated).
type outcome string

const (
	held      outcome = "held"
	notHeld   outcome = "not held"
	fulfilled outcome = "fulfilled"
	violated  outcome = "violated"
	errored   outcome = "errored" // at run time; covers no branch
)

// Coverage collects the outcomes that runs reach; pass it in a Trace. A nil *Coverage collects
// nothing. It is not safe for concurrent use.
type Coverage struct {
	reached map[coverKey]bool
	ranAt   []coverRun // distinct
}

// coverKey names an outcome by path, not by pointer: a rule may be compiled many times.
type coverKey struct {
	set, stage, rule string // set is name@version; stage and rule may be empty
	value            string // axis suffix of the address; empty = no axis
	overlay          string // source overlay; empty = none
	outcome          outcome
}

// NewCoverage returns an empty Coverage.
func NewCoverage() *Coverage {
	return &Coverage{reached: map[coverKey]bool{}}
}

// cover records an outcome. A rule counts as held only once its right sides are evaluated.
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

func (c *Coverage) note(set *SetPlan, stage, rule string, axis *lang.AxisValue, overlay string, o outcome) {
	if c != nil {
		c.reached[coverKey{set.RuleSet.ID(), stage, rule, axis.Suffix(), overlay, o}] = true
	}
}

type coverRun struct {
	plan  *Plan
	point string
}

// Ran records that a plan ran at a point. The report covers the rule sets of these points.
func (c *Coverage) Ran(plan *Plan, point string) {
	if run := (coverRun{plan, point}); !slices.Contains(c.ranAt, run) {
		c.ranAt = append(c.ranAt, run)
	}
}

// CoverageReport says which outcomes of the rule sets were reached.
type CoverageReport struct {
	Sets      []SetCoverage
	Unreached []Unreached
}

// SetCoverage counts the outcomes of one rule set per axis value: one for each rule, decision and
// branch, two for each validation.
type SetCoverage struct {
	RuleSet string `json:"ruleSet"` // name@version
	Reached int    `json:"reached"`
	Total   int    `json:"total"`
}

// Unreached is an outcome that no run reached.
type Unreached struct {
	Kind string          `json:"kind"` // rule, branch, decision or validation
	Path string          `json:"path"` // set/stage/rule; stage or rule may be absent
	What string          `json:"what"` // e.g. "its condition was never false"
	At   source.Position `json:"-"`
}

// Report compares the outcomes reached with all possible outcomes of the rule sets that ran.
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

// setReport counts the outcomes of one rule set, over all variants that overlays made of it.
type setReport struct {
	coverage  *Coverage
	wanted    map[coverKey]bool // counted already
	counts    SetCoverage
	unreached []Unreached
	value     string // current axis suffix
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

// suffixes returns the address suffixes of the axis values not left out; [""] without an axis.
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
