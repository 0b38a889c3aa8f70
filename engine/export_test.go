package engine

import (
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/registry"
)

// Internals for the external tests.

// AssemblerOf returns an assembler for the expressions of a rule set.
func AssemblerOf(set *SetPlan, vars *closure.Variables, interpret bool) *closure.Assembler {
	return set.assembler(vars, interpret)
}

// RulesThatCanFire lists the rules compiled at a point.
func RulesThatCanFire(p *Plan, point string) (out []string) {
	for _, st := range p.parts.Points[point].code.stages {
		for _, r := range st.rules {
			out = append(out, r.origin.rule)
		}
	}
	return out
}

func FirstRuleAlwaysFires(p *Plan, point string) bool {
	return p.parts.Points[point].code.stages[0].rules[0].when == nil
}

func RowsThatCanDecide(p *Plan, point string) int { return len(p.parts.Points[point].code.rows) }

// MeasuredRun runs stages and returns their cost.
func MeasuredRun(p *Plan, point string, facts *registry.Facts) (steps, bytes int64, failed []*RuleError) {
	r := newRun(p.parts.Points[point].code, facts, nil)
	r.runStages(p.parts.Points[point].code)
	r.settle()
	for _, a := range r.accounts {
		steps, bytes = steps+a.Steps, bytes+a.Bytes
	}
	failed = r.failed
	r.free()
	return steps, bytes, failed
}
