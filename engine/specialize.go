package engine

import (
	"slices"

	"github.com/google/cel-go/common/types/ref"
)

// Constant is a fact that a host knows before it runs a point, e.g. an object's own settings for as long as the object
// does not change.
type Constant struct {
	Point string
	Name  string // a variable of the point, or of one of its scopes where it is the same for every item
	Value ref.Val
}

// Specialize returns a plan in which the given facts are constants: what depends on them alone is computed now, and
// rules that can no longer fire are gone. It shares everything else with p, and gives the same results as p, provided
// that the host goes on to bind these facts to equal values in each run: expressions that CEL evaluates read them from
// there. Values must not change afterwards. It panics on a name the point does not declare, or which rules may write.
func (p *Plan) Specialize(list ...Constant) *Plan {
	out := *p
	out.points = make(map[string]*pointPlan, len(p.points))
	known := map[string]constants{}
	for name, at := range p.points {
		out.points[name] = at
	}
	for _, c := range list {
		at := p.points[c.Point]
		if at == nil || at.leftOut {
			continue
		}
		at.point.mustBeConstant(c.Name)
		if !at.reads(c.Name) {
			continue
		}
		if known[c.Point] == nil {
			known[c.Point] = constants{}
			for name, v := range at.known {
				known[c.Point][name] = v
			}
		}
		known[c.Point][c.Name] = c.Value
	}
	for name, values := range known {
		at := *p.points[name]
		at.known = values
		at.assemble(false)
		out.points[name] = &at
	}
	return &out
}

// Interpreted returns the plan with every expression evaluated by CEL itself. It gives the same results as p, and is what
// tests hold p against.
func (p *Plan) Interpreted() *Plan {
	out := *p
	out.points = make(map[string]*pointPlan, len(p.points))
	for name, at := range p.points {
		if at.leftOut {
			out.points[name] = at
			continue
		}
		interpreted := *at
		interpreted.assemble(true)
		out.points[name] = &interpreted
	}
	return &out
}

// reads reports whether any expression at the point reads a variable.
func (at *pointPlan) reads(name string) bool {
	found := false
	for _, set := range at.sets {
		set.each(func(p *program) { found = found || slices.Contains(p.reads, name) })
	}
	return found
}

// each visits the expressions of stages and decisions.
func (s *setPlan) each(visit func(*program)) {
	if s.variables != nil {
		visitAll(visit, s.variables.programs...)
	}
	for _, d := range s.decisions {
		visitAll(visit, d.when, d.reason)
	}
	for _, st := range s.stages {
		st.each(visit)
	}
}

func (st *stagePlan) each(visit func(*program)) {
	visitAll(visit, st.vars.programs...)
	visitAll(visit, st.when)
	for _, r := range st.rules {
		visitAll(visit, r.when)
		for _, w := range r.writes {
			visitAll(visit, w.value)
		}
	}
}

// reads reports whether any expression of the stage reads a variable.
func (st *stagePlan) reads(name string) bool {
	found := false
	st.each(func(p *program) { found = found || slices.Contains(p.reads, name) })
	return found
}

// visitAll visits those of the expressions that are there.
func visitAll(visit func(*program), list ...*program) {
	for _, p := range list {
		if p != nil {
			visit(p)
		}
	}
}
