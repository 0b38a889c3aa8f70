package engine

// outcome is what a rule came to: its condition held or did not, or an object fulfilled or violated it.
type outcome string

const (
	held      outcome = "held"
	notHeld   outcome = "not held"
	fulfilled outcome = "fulfilled"
	violated  outcome = "violated"
	errored   outcome = "errored" // at run time; it counts for no branch
)

func whether(applies bool) outcome {
	if applies {
		return held
	}
	return notHeld
}

// Coverage collects which outcomes of rules a number of runs reached; hand it in through a Trace. A nil *Coverage
// collects nothing. It belongs to one goroutine.
type Coverage struct {
	reached   map[coverKey]bool
	pipelines map[string]bool // name@version of those that ran
}

// coverKey names an outcome by the path of its rule. It holds names only: what ran may have been compiled many times.
type coverKey struct {
	set, stage, rule string // set is name@version; rule is empty for a stage, stage for what has none
	outcome          outcome
}

// NewCoverage returns an empty collection.
func NewCoverage() *Coverage {
	return &Coverage{reached: map[coverKey]bool{}, pipelines: map[string]bool{}}
}

// cover notes whether the condition of a stage, rule or decision held.
func (t *Trace) cover(at *origin, holds bool) {
	if t.Coverage == nil {
		return
	}
	rule := at.rule
	if rule == stageCondition {
		rule = ""
	}
	t.Coverage.note(at.set, at.stage, rule, whether(holds))
}

// note notes that a stage, rule, decision or validation came to an outcome.
func (c *Coverage) note(set *setPlan, stage, rule string, o outcome) {
	if c != nil {
		c.reached[coverKey{set.ruleSet.ID(), stage, rule, o}] = true
	}
}

// ran notes that a plan was run, which puts its pipeline's rule sets into the report.
func (c *Coverage) ran(plan *Plan) {
	if c != nil {
		c.pipelines[plan.Pipeline()] = true
	}
}

// CoverageReport says how much of the rule sets of some pipelines was reached.
type CoverageReport struct {
	Sets      []SetCoverage
	Unreached []Unreached
}

// SetCoverage counts the outcomes of one rule set: each rule, decision and branch is one, a validation two.
type SetCoverage struct {
	RuleSet string `json:"ruleSet"` // name@version
	Reached int    `json:"reached"`
	Total   int    `json:"total"`
}

// Unreached is an outcome that nothing reached.
type Unreached struct {
	Kind string   `json:"kind"` // rule, branch, decision or validation
	Path string   `json:"path"` // set/stage/rule, without what there is not
	What string   `json:"what"` // e.g. "its condition was never false"
	At   Position `json:"-"`
}

// Report compares what was reached with all that the rule sets of a library can come to. It covers the rule sets, by
// name, of those pipelines that ran.
func (c *Coverage) Report(lib *Library) CoverageReport {
	ids := map[string]bool{}
	for pipeline := range c.pipelines {
		p, loaded := lib.Pipelines[pipeline]
		if !loaded {
			continue
		}
		for _, at := range p.Points {
			for _, set := range at.RuleSets {
				ids[set.Value] = true
			}
		}
	}
	var out CoverageReport
	for _, id := range sortedKeys(ids) {
		if set := lib.RuleSets[id]; set != nil {
			s := &setReport{coverage: c, set: set, counts: SetCoverage{RuleSet: id}}
			s.walk()
			out.Sets = append(out.Sets, s.counts)
			out.Unreached = append(out.Unreached, s.unreached...)
		}
	}
	return out
}

// setReport counts the outcomes of one rule set.
type setReport struct {
	coverage  *Coverage
	set       *RuleSet
	counts    SetCoverage
	unreached []Unreached
}

func (s *setReport) walk() {
	for _, st := range s.set.Stages {
		stage := st.Name.Value
		if !st.When.IsZero() {
			s.want("branch", stage, "", held, st.When, "its condition was never true")
			s.want("branch", stage, "", notHeld, st.When, "its condition was never false")
		}
		for _, r := range st.Rules {
			s.want("rule", stage, r.Name.Value, held, r.Name, "it never ran")
			if !r.When.IsZero() {
				s.want("branch", stage, r.Name.Value, notHeld, r.When, "its condition was never false")
			}
		}
	}
	for _, d := range s.set.Decisions {
		s.want("decision", "", d.Name.Value, held, d.Name, "it was never taken")
		if !d.When.IsZero() {
			s.want("branch", "", d.Name.Value, notHeld, d.When, "its condition was never false")
		}
	}
	for _, v := range s.set.Validations {
		s.want("validation", "", v.Name.Value, fulfilled, v.Name, "nothing fulfilled it")
		s.want("validation", "", v.Name.Value, violated, v.Name, "nothing violated it")
		if !v.When.IsZero() {
			s.want("branch", "", v.Name.Value, notHeld, v.When, "its condition was never false")
		}
	}
}

func (s *setReport) want(kind, stage, rule string, o outcome, at Scalar, what string) {
	s.counts.Total++
	if s.coverage.reached[coverKey{s.set.ID(), stage, rule, o}] {
		s.counts.Reached++
		return
	}
	path := s.set.Name.Value
	for _, part := range []string{stage, rule} {
		if part != "" {
			path += "/" + part
		}
	}
	s.unreached = append(s.unreached, Unreached{Kind: kind, Path: path, What: what, At: at.Pos})
}
