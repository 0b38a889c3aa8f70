package engine

import (
	"slices"

	"github.com/celvpa/celvpa/engine/internal/closure"
)

// Interpreted returns the plan with every expression evaluated by CEL, for tests to compare with p.
func (p *Plan) Interpreted() *Plan {
	out := *p
	out.parts.Points = make(map[string]*PointPlan, len(p.parts.Points))
	for name, at := range p.parts.Points {
		if at.LeftOut {
			out.parts.Points[name] = at
			continue
		}
		interpreted := *at
		interpreted.Assemble(true)
		out.parts.Points[name] = &interpreted
	}
	return &out
}

// Reads reports whether any stage or decision at a point reads a variable of the point.
func (p *Plan) Reads(point, variable string) bool {
	at := p.at(point)
	return at != nil && at.reads(variable)
}

// reads reports whether any expression at the point reads a variable.
func (at *PointPlan) reads(name string) bool {
	found := false
	for _, set := range at.Sets {
		set.each(func(p *closure.Program) { found = found || slices.Contains(p.Reads, name) })
	}
	return found
}

// each visits the expressions of stages and decisions.
func (s *SetPlan) each(visit func(*closure.Program)) {
	if s.Variables != nil {
		visitAll(visit, s.Variables.Programs...)
	}
	for _, d := range s.Decisions {
		visitAll(visit, d.When, d.Reason, d.Until)
	}
	for _, st := range s.Stages {
		st.each(visit)
	}
}

func (st *StagePlan) each(visit func(*closure.Program)) {
	visitAll(visit, st.Vars.Programs...)
	visitAll(visit, st.When)
	for _, r := range st.Rules {
		visitAll(visit, r.When)
		for _, w := range r.Writes {
			visitAll(visit, w.Value)
		}
	}
}

// visitAll skips nil expressions.
func visitAll(visit func(*closure.Program), list ...*closure.Program) {
	for _, p := range list {
		if p != nil {
			visit(p)
		}
	}
}
