package compile

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// wayOutOfSteps is the advice for expressions that take too long.
const wayOutOfSteps = "avoid loops inside loops, filter a list before going through it again, or move a part into a variable"

// tooCostly refuses validations whose worst case could hold up admission.
func tooCostly(env *cel.Env, ast *cel.Ast, sizes checker.CostEstimator) error {
	estimate, err := env.EstimateCost(ast, sizes)
	if err != nil {
		return fmt.Errorf("estimating the cost: %w", err)
	}
	if estimate.Max > lang.MaxCost {
		return fmt.Errorf("the expression may take %d steps, at most %d are allowed: %s", estimate.Max, lang.MaxCost, wayOutOfSteps)
	}
	return nil
}

// affordable estimates an expression of a stage or decision. It returns nil and reports a worst
// case that could hold up a cycle or an admission, or exhaust memory.
func (c *compiler) affordable(x *checkedExpression, sc *scopeEnv, subject string) *closure.Estimate {
	e, s := estimateOf(x.NativeRep(), sc), x.at
	out := e.out
	out.At, out.Subject = s, subject
	total := out.Total()
	switch {
	case e.odd:
		c.ps.At(s, subject, "the expression has a construct whose cost has no bound; use exists, all, exists_one, filter or map")
	case e.grown != nil:
		x.problem(c.ps, e.grown.expr, subject, e.grown.message())
	case total.Steps > lang.MaxCost && out.Own.Steps <= lang.MaxCost:
		c.ps.At(s, subject, fmt.Sprintf("the expression may take %d steps with the variables that it reads (%s), at most %d are allowed: %s",
			total.Steps, dearest(out), lang.MaxCost, wayOutOfSteps))
	case total.Steps > lang.MaxCost:
		c.ps.At(s, subject, fmt.Sprintf("the expression may take %d steps, at most %d are allowed: %s", total.Steps, lang.MaxCost, wayOutOfSteps))
	case total.Bytes > lang.MaxBytes:
		c.ps.At(s, subject, fmt.Sprintf("the expression may build texts and lists of %d bytes, at most %d are allowed: join fewer texts, or filter a list before making another of it",
			total.Bytes, lang.MaxBytes))
	default:
		return out
	}
	return nil
}

// affordableVariables reports variables that exhaust memory together.
func (c *compiler) affordableVariables(programs []*closure.Program) {
	total := int64(0)
	for _, p := range programs {
		if total = lang.SaturatingAdd(total, p.Estimate.Own.Bytes); total > lang.MaxKept {
			c.ps.At(p.Estimate.At, p.Estimate.Subject, fmt.Sprintf("with it the variables may build texts and lists of %d bytes, at most %d are allowed, for they are kept: "+
				"split the stage, or make lists where they are needed", total, lang.MaxKept))
			return
		}
	}
}

func (g *grown) message() string {
	if g.text {
		return fmt.Sprintf("the text may get %d bytes long, at most %d are allowed, where a fact counts as %d: join fewer texts", g.extent.Length, lang.MaxText, lang.MaxTextSize)
	}
	return fmt.Sprintf("the list may hold %d bytes, with all that is in it, at most %d are allowed, where a list of facts counts as %d entries: "+
		"join fewer lists, or filter them before", g.extent.Bytes, lang.MaxList, lang.MaxListSize)
}

// dearest names the variables that take at least a tenth of the steps.
func dearest(e *closure.Estimate) string {
	var names []string
	for _, v := range e.Reads {
		if v.Own.Steps*10 >= e.Total().Steps {
			names = append(names, fmt.Sprintf("%s takes %d", v.Name, v.Own.Steps))
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("there are %d", len(e.Reads))
	}
	return strings.Join(names, ", ")
}

// together sums the cost of a point and finds its most expensive expression.
type together struct {
	closure.Cost
	items    int64 // per scope
	times    int64 // runs of the current stage
	computed map[*closure.Estimate]bool
	largest  *closure.Estimate
	share    closure.Cost
}

func (t *together) begin(times int64) { t.times, t.computed = times, map[*closure.Estimate]bool{} }

// add adds expressions, and the variables that they read unless already computed.
func (t *together) add(list ...*closure.Program) {
	for _, p := range list {
		if p == nil {
			continue
		}
		share := p.Estimate.Own.Times(t.times)
		for _, v := range p.Estimate.Reads {
			if t.computed[v] {
				continue
			}
			t.computed[v] = true
			if v.Steady {
				share = share.Plus(v.Own)
			} else {
				share = share.Plus(v.Own.Times(t.times))
			}
		}
		t.Cost = t.Plus(share)
		if t.largest == nil || share.Steps+share.Bytes > t.share.Steps+t.share.Bytes {
			t.largest, t.share = p.Estimate, share
		}
	}
}

// wrote drops variables that are recomputed after a write.
func (t *together) wrote() {
	for v := range t.computed {
		if !v.Steady {
			delete(t.computed, v)
		}
	}
}

func (t *together) set(set *engine.SetPlan) {
	t.begin(1)
	for _, d := range set.Decisions {
		t.add(d.When, d.Reason, d.Until)
	}
	for _, st := range set.Stages {
		if st.Vars == nil {
			continue // it has faults
		}
		t.begin(1)
		if st.Scope >= 0 {
			t.begin(t.items)
		}
		t.add(st.When)
		for _, r := range st.Rules {
			t.add(r.When)
			for _, w := range r.Writes {
				t.add(w.Value)
			}
			if len(r.Writes) > 0 {
				t.wrote()
			}
		}
	}
}

// include adds the cost of a rule set.
func (t *together) include(set *together) {
	t.Cost = t.Plus(set.Cost)
	if t.largest == nil || set.largest != nil && set.share.Steps+set.share.Bytes > t.share.Steps+t.share.Bytes {
		t.largest, t.share = set.largest, set.share
	}
}

// Cost is the worst case of one run of a point: steps, and bytes of texts and lists. Each scope has
// the given number of items.
func Cost(p *engine.Plan, point string, items int64) (steps, bytes int64) {
	t := &together{items: items}
	for _, set := range p.Parts().Points[point].Sets {
		t.set(set)
	}
	return t.Steps, t.Bytes
}

// pointLimit bounds the cost of one run of a point.
type pointLimit struct {
	what string // a verb, with the amount
	most int64
	of   func(closure.Cost) int64
}

var pointLimits = []pointLimit{
	{"take %d steps", lang.MaxPointSteps, func(c closure.Cost) int64 { return c.Steps }},
	{"build texts and lists of %d bytes", lang.MaxPointBytes, func(c closure.Cost) int64 { return c.Bytes }},
}

// beyond returns the first limit that a cost exceeds; nil = none.
func beyond(cost closure.Cost) *pointLimit {
	for i, l := range pointLimits {
		if l.of(cost) > l.most {
			return &pointLimits[i]
		}
	}
	return nil
}

// affordableTogether reports a point whose rules take too long together.
func (c *compiler) affordableTogether(point *registry.Point, t *together) {
	if l := beyond(t.Cost); l != nil {
		c.ps.At(t.largest.At, t.largest.Subject, fmt.Sprintf("the rules at %s may "+l.what+" in one run, for up to %d items, at most %d are allowed; this expression has the largest share, %d: %s",
			point.Name, l.of(t.Cost), lang.MaxItems, l.most, l.of(t.share), wayOutOfSteps))
	}
}
