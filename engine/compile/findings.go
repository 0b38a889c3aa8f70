package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/internal/resolve"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// usage collects the variables and params that a rule set's expressions read.
type usage struct {
	names map[string]bool // variables, and params as "params.name"
}

func (u *usage) visit(ast *cel.Ast) {
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.IdentKind:
			u.names[e.AsIdent()] = true
		case celast.SelectKind, celast.CallKind:
			if operand, field, ok := closure.SelectedFields(e); ok {
				u.field(operand, field)
			}
			if field, record, ok := closure.FieldInRecord(ast.NativeRep(), e); ok {
				name, _ := closure.LiteralText(field)
				u.field(record, name)
			}
		}
	}))
}

func (u *usage) field(operand celast.Expr, name string) {
	if operand.Kind() == celast.IdentKind && closure.IdentName(operand) == "params" {
		u.names["params."+name] = true
	}
}

// unused reports variables and params that nothing reads: they suggest a control without effect.
func (c *compiler) unused(set *document.RuleSet, used *usage) {
	subject := "RuleSet " + set.ID()
	report := func(what string, name source.Scalar, key string) {
		if !used.names[key] {
			c.findings.At(name, subject, fmt.Sprintf("%s %s is never read", what, name.Value))
		}
	}
	for _, p := range set.Params {
		name, _ := document.CutParam(p.Name.Value)
		report("param", p.Name, "params."+name)
	}
	for _, v := range set.Variables {
		report("variable", v.Name, v.Name.Value)
	}
	for _, st := range set.Stages {
		for _, v := range st.Variables {
			report("variable", v.Name, v.Name.Value)
		}
	}
}

// unusedShared reports the pipeline's own parameters that no rule set reads.
func (c *compiler) unusedShared(r *resolve.Resolved, findings *source.Collector) {
	read := map[string]bool{}
	for _, point := range r.Points {
		for _, placed := range point.Sets {
			maps.Copy(read, r.Pipeline.ReadsParams(placed.Set))
		}
	}
	for _, p := range r.Pipeline.Params {
		if name, _ := document.CutParam(p.Name.Value); !read[name] && r.Pipeline.ParamFrom(p.Name.Value) == r.Pipeline {
			findings.At(p.Name, r.Pipeline.Subject(), "param "+name+" is never read")
		}
	}
}

// unreachable reports decisions behind a row that always holds or has the same condition.
func (c *compiler) unreachable(set *document.RuleSet) {
	subject := "RuleSet " + set.ID()
	seen := map[string]string{}
	always := ""
	for _, d := range set.Decisions {
		condition := strings.Join(strings.Fields(d.When.Value), " ")
		switch {
		case always != "":
			c.findings.At(d.Name, subject, fmt.Sprintf("decision %s is never reached: %s above it always holds", d.Name.Value, always))
		case seen[condition] != "":
			c.findings.At(d.Name, subject, fmt.Sprintf("decision %s is never reached: %s above it has the same condition", d.Name.Value, seen[condition]))
		}
		if condition == "" || condition == "true" {
			always = d.Name.Value
		} else {
			seen[condition] = d.Name.Value
		}
	}
}

// constantCondition reports literally false conditions: their rule can never fire.
func (c *compiler) constantCondition(s source.Scalar, ast *cel.Ast, subject string) {
	if e := ast.NativeRep().Expr(); e.Kind() == celast.LiteralKind && e.AsLiteral() == types.False {
		c.findings.At(s, subject, "the condition is never true; disable or delete what it guards")
	}
}

// choices follows what stages with solve choose at a point, to report rules of overlays that come too late.
type choices struct {
	point    *registry.Point
	bounds   []registry.BoundVar
	by       map[string]string // the stage that chose a fact first
	late     []*source.Problem // bounds that no later stage reads, so far
	places   []document.Insertion
	passed   int // of places
	findings *source.Collector
}

func newChoices(point *registry.Point, findings *source.Collector) *choices {
	c := &choices{point: point, bounds: slices.Clone(point.Bounds), by: map[string]string{}, findings: findings}
	for _, s := range point.Scopes {
		c.bounds = append(c.bounds, s.Bounds...)
	}
	return c
}

// entry reports what an overlay inserted after all places that are good for it.
func (c *choices) entry(set *document.RuleSet, name source.Scalar, inserted bool) {
	if !inserted {
		for c.passed < len(c.places) {
			before := c.places[c.passed].Before.Value
			if before != set.Name.Value && before != set.Name.Value+"/"+name.Value {
				return
			}
			c.passed++
		}
		return
	}
	if len(c.places) == 0 || c.passed < len(c.places) {
		return
	}
	var good []string
	for _, p := range c.places {
		good = append(good, "before "+p.Before.Value+" to "+p.To.Value)
	}
	c.findings.At(name, "RuleSet "+set.ID(), fmt.Sprintf("%s runs after %s, whose work it may undo; insert it %s", name.Value, c.places[len(c.places)-1].Before.Value, strings.Join(good, ", or ")))
}

// set goes through the stages of the next rule set; added is whether an overlay brought the whole set.
func (c *choices) set(set *document.RuleSet, added bool) {
	for i := range set.Decisions {
		c.entry(set, set.Decisions[i].Name, added || set.Decisions[i].Overlay != "")
	}
	for i := range set.Stages {
		st := &set.Stages[i]
		c.entry(set, st.Name, added || st.Overlay != "")
		if !st.Solve.IsZero() {
			c.late = nil
			for _, b := range c.bounds {
				if c.by[b.Of] == "" {
					c.by[b.Of] = set.Name.Value + "/" + st.Name.Value
				}
			}
			continue
		}
		for j := range st.Rules {
			if r := &st.Rules[j]; added || st.Overlay != "" || r.Overlay != "" {
				c.rule(r, "RuleSet "+set.ID()+", stage "+st.Name.Value+", rule "+r.Name.Value)
			}
		}
	}
}

func (c *choices) rule(r *document.Rule, subject string) {
	for _, a := range r.Set {
		root, _, _ := strings.Cut(strings.ReplaceAll(a.Path.Value, "[", "."), ".")
		earlier := ""
		if by := c.by[root]; by != "" {
			earlier = "put the stage before " + by + ", or set a bound there"
		} else if slices.Contains(c.point.Judged, root) {
			earlier = "set it earlier, or a bound"
		}
		if earlier != "" {
			c.findings.At(a.Path, subject, a.Path.Value+" is set after it was chosen within bounds, which it may leave: what does not hold then is not applied; "+earlier)
		}
		for _, b := range c.bounds {
			if by := c.by[b.Of]; b.Name == root && by != "" {
				late := &source.Collector{}
				late.At(a.Path, subject, fmt.Sprintf("%s has no effect: no later stage solves; put the stage before %s", a.Path.Value, by))
				c.late = append(c.late, late.List...)
				break
			}
		}
	}
}

// done reports the bounds that no stage has read.
func (c *choices) done() { c.findings.List = append(c.findings.List, c.late...) }
