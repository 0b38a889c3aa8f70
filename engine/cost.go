package engine

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
)

// sizes tells CEL's own estimate, by which validations are judged, how large facts can get.
type sizes struct{}

// EstimateSize implements checker.CostEstimator.
func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if node.Type() != nil && node.Type().TypeName() == "string" {
		return &checker.SizeEstimate{Max: maxTextSize}
	}
	return &checker.SizeEstimate{Max: maxListSize}
}

// EstimateCallCost implements checker.CostEstimator: host functions count as one step.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// wayOutOfSteps is what to do about an expression that takes too long.
const wayOutOfSteps = "avoid loops inside loops, filter a list before going through it again, or move a part into a variable"

// tooCostly refuses validations whose worst case could hold up an admission.
func tooCostly(env *cel.Env, ast *cel.Ast, sizes checker.CostEstimator) error {
	estimate, err := env.EstimateCost(ast, sizes)
	if err != nil {
		return fmt.Errorf("estimating the cost: %w", err)
	}
	if estimate.Max > maxCost {
		return fmt.Errorf("the expression may take %d steps, at most %d are allowed: %s", estimate.Max, maxCost, wayOutOfSteps)
	}
	return nil
}

// affordable estimates an expression of a stage or a decision, and reports one whose worst case could hold up a cycle or
// an admission, or fill the memory; nil then.
func (c *compiler) affordable(s Scalar, ast *cel.Ast, sc *scopeEnv, subject string) *estimate {
	e := estimateOf(ast.NativeRep(), sc)
	out := e.out
	out.at, out.subject = s, subject
	total := out.total()
	switch {
	case e.odd:
		c.ps.at(s, subject, "the expression has a construct whose cost has no bound; use exists, all, exists_one, filter or map")
	case e.grown != nil:
		loc := ast.NativeRep().SourceInfo().GetStartLocation(e.grown.expr.ID())
		pos := s.At(loc.Line(), loc.Column())
		c.ps.add(&Problem{Pos: pos, Subject: subject, Message: e.grown.message(), Excerpt: excerpt(s.lines, pos)})
	case total.steps > maxCost && out.own.steps <= maxCost:
		c.ps.at(s, subject, fmt.Sprintf("the expression may take %d steps with the variables that it reads (%s), at most %d are allowed: %s",
			total.steps, dearest(out), maxCost, wayOutOfSteps))
	case total.steps > maxCost:
		c.ps.at(s, subject, fmt.Sprintf("the expression may take %d steps, at most %d are allowed: %s", total.steps, maxCost, wayOutOfSteps))
	case total.bytes > maxBytes:
		c.ps.at(s, subject, fmt.Sprintf("the expression may build texts and lists of %d bytes, at most %d are allowed: join fewer texts, or filter a list before making another of it",
			total.bytes, maxBytes))
	default:
		return out
	}
	return nil
}

// affordableVariables reports variables that fill the memory together, each of which alone does not.
func (c *compiler) affordableVariables(programs []*program) {
	total := int64(0)
	for _, p := range programs {
		if total = SaturatingAdd(total, p.estimate.own.bytes); total > maxKept {
			c.ps.at(p.estimate.at, p.estimate.subject, fmt.Sprintf("with it the variables may build texts and lists of %d bytes, at most %d are allowed, for they are kept: "+
				"split the stage, or make lists where they are needed", total, maxKept))
			return
		}
	}
}

// message says why a value may get too large.
func (g *grown) message() string {
	if g.text {
		return fmt.Sprintf("the text may get %d bytes long, at most %d are allowed, where a fact counts as %d: join fewer texts", g.extent.length, maxText, maxTextSize)
	}
	return fmt.Sprintf("the list may hold %d bytes, with all that is in it, at most %d are allowed, where a list of facts counts as %d entries: "+
		"join fewer lists, or filter them before", g.extent.bytes, maxList, maxListSize)
}

// dearest names the variables with the largest share of the steps.
func dearest(e *estimate) string {
	var names []string
	for _, v := range e.reads {
		if v.own.steps*10 >= e.total().steps {
			names = append(names, fmt.Sprintf("%s takes %d", v.name, v.own.steps))
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("there are %d", len(e.reads))
	}
	return strings.Join(names, ", ")
}

// together adds up what runs at a point, and finds the expression with the largest share.
type together struct {
	cost
	items    int64 // that stages run for
	times    int64 // how often the stage at hand runs
	computed map[*estimate]bool
	largest  *estimate
	share    cost
}

// begin starts a stage or table that runs so many times.
func (t *together) begin(times int64) { t.times, t.computed = times, map[*estimate]bool{} }

// add adds expressions, and the variables that they read, unless those are computed already.
func (t *together) add(list ...*program) {
	for _, p := range list {
		if p == nil {
			continue
		}
		share := p.estimate.own.times(t.times)
		for _, v := range p.estimate.reads {
			if t.computed[v] {
				continue
			}
			t.computed[v] = true
			if v.steady {
				share = share.plus(v.own)
			} else {
				share = share.plus(v.own.times(t.times))
			}
		}
		t.cost = t.plus(share)
		if t.largest == nil || share.steps+share.bytes > t.share.steps+t.share.bytes {
			t.largest, t.share = p.estimate, share
		}
	}
}

// wrote forgets what is computed anew after a rule wrote.
func (t *together) wrote() {
	for v := range t.computed {
		if !v.steady {
			delete(t.computed, v)
		}
	}
}

// set adds the expressions of a rule set.
func (t *together) set(set *setPlan) {
	t.begin(1)
	for _, d := range set.decisions {
		t.add(d.when, d.reason)
	}
	for _, st := range set.stages {
		if st.vars == nil {
			continue // it has faults
		}
		t.begin(1)
		if st.scope >= 0 {
			t.begin(t.items)
		}
		t.add(st.when)
		for _, r := range st.rules {
			t.add(r.when)
			for _, w := range r.writes {
				t.add(w.value)
			}
			if len(r.writes) > 0 {
				t.wrote()
			}
		}
	}
}

// Cost is what the rules at a point may take in one run, for so many items of each scope: steps, and bytes of texts and lists.
func Cost(p *Plan, point string, items int64) (steps, bytes int64) {
	t := costOf(p.points[point], items)
	return t.steps, t.bytes
}

func costOf(at *pointPlan, items int64) *together {
	t := &together{items: items}
	for _, set := range at.sets {
		t.set(set)
	}
	return t
}

// affordableTogether reports a point whose rules take too long, each of which alone does not.
func (c *compiler) affordableTogether(at *pointPlan) {
	t := costOf(at, maxItems)
	what, most, taken, share := "take %d steps", int64(maxPointSteps), t.steps, t.share.steps
	if t.steps <= maxPointSteps {
		what, most, taken, share = "build texts and lists of %d bytes", maxPointBytes, t.bytes, t.share.bytes
	}
	if taken <= most {
		return
	}
	c.ps.at(t.largest.at, t.largest.subject, fmt.Sprintf("the rules at %s may "+what+" in one run, for up to %d items, at most %d are allowed; this expression has the largest share, %d: %s",
		at.point.Name, taken, maxItems, most, share, wayOutOfSteps))
}
