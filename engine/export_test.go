package engine

// What tests outside the package need of its inside.

// assemblerOf turns the expressions of a rule set into code.
func assemblerOf(set *setPlan, vars *variables, known constants, interpret bool) *assembler {
	return set.assembler(vars, known, interpret)
}

// rulesThatCanFire names the rules that were not left out of the code of a point.
func rulesThatCanFire(p *Plan, point string) (out []string) {
	for _, st := range p.points[point].code.stages {
		for _, r := range st.rules {
			out = append(out, r.origin.rule)
		}
	}
	return out
}

func firstRuleAlwaysFires(p *Plan, point string) bool {
	return p.points[point].code.stages[0].rules[0].when == nil
}

func rowsThatCanDecide(p *Plan, point string) int { return len(p.points[point].code.rows) }

// measuredRun runs stages, and counts what they took.
func measuredRun(p *Plan, point string, facts *Facts) (steps, bytes int64, failed []*RuleError) {
	r := newRun(p.points[point].code, facts, nil)
	r.runStages(p.points[point].code)
	steps, bytes, failed = r.steps, r.bytes, r.failed
	r.free()
	return steps, bytes, failed
}

var speltFor = spelt
