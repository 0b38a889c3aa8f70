package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/faults"
	"github.com/celvpa/celvpa/engine/internal/closure"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
	"github.com/celvpa/celvpa/engine/source"
)

// stages compiles a stage once per scope and axis value.
func (c *compiler) stages(point *registry.Point, st *document.Stage, sc *scopeEnv, subject string) []*engine.StagePlan {
	subject += ", stage " + st.Name.Value
	scopes, axis, ok := c.each(point, st.Each, subject)
	if !ok {
		return nil
	}
	named := c.ordered(st.Variables, sc, subject)
	var out []*engine.StagePlan
	first := len(c.ps.List)
	for _, scope := range scopes {
		for _, value := range c.valuesBut(axis, st.Without, subject) {
			before := len(c.ps.List)
			c.axis = value
			out = append(out, c.stage(point, st, named, scope, sc, subject))
			c.ps.DropReportedAt(first, before)
		}
	}
	c.axis = nil
	before := len(c.ps.List)
	c.oneFieldEach(axis, st, subject)
	c.ps.DropReportedAt(first, before) // what cannot be set at all is one fault
	return out
}

func (c *compiler) stage(point *registry.Point, st *document.Stage, named []document.Variable, scope *registry.Scope, sc *scopeEnv, subject string) *engine.StagePlan {
	out := &engine.StagePlan{Name: st.Name.Value, Axis: c.axis, Scope: -1, SkipOnError: st.OnError.Value == document.OnErrorSkipStage, Overlay: st.Overlay}
	sc = sc.child()
	if scope != nil {
		out.Scope = point.ScopeIndex()[scope.Name]
		var options []cel.EnvOption
		for i, v := range scope.Vars {
			sc.declare(&options, v.Name, v.Type, v.Writable, closure.Slot{Kind: closure.ItemSlot, Index: i})
		}
		sc.declareBounds(scope.Bounds)
		if !c.extend(sc, options, st.Name, subject) {
			return out
		}
	}
	if !st.Solve.IsZero() {
		out.Solver = c.solver(point, st.Solve, subject)
	}
	programs := c.variables(named, sc, subject)
	out.Vars = &closure.Variables{Slots: sc.slots, Schemas: sc.schemas, Programs: programs}
	c.stageAsks = nil
	out.When = c.condition(st.When, sc, subject+", when")
	c.stageAsks = c.asks(out.When)
	for i := range st.Rules {
		r := &st.Rules[i]
		c.valuesBut(lang.AxisAt(c.axis), r.Without, subject+", rule "+r.Name.Value)
		if c.axis == nil || !lang.IsLeftOut(r.Without, c.axis.Value) {
			out.Rules = append(out.Rules, c.rule(r, sc, subject))
		}
	}
	return out
}

// solver finds the solver that a stage names.
func (c *compiler) solver(point *registry.Point, name source.Scalar, subject string) *registry.Solver {
	var known []string
	for i := range point.Solvers {
		if point.Solvers[i].Name == name.Value {
			return &point.Solvers[i]
		}
		known = append(known, point.Solvers[i].Name)
	}
	message := "point " + point.Name + " has no solvers: write rules"
	if len(known) > 0 {
		message = fmt.Sprintf("point %s has no solver %q; use %s", point.Name, name.Value, strings.Join(known, ", "))
	}
	c.ps.At(name, subject, message)
	return nil
}

func (c *compiler) rule(r *document.Rule, sc *scopeEnv, subject string) *engine.RulePlan {
	subject += ", rule " + r.Name.Value
	out := &engine.RulePlan{Name: r.Name.Value, Pos: r.Name.Pos, Note: c.axis.Text(r.Note.Value), Overlay: r.Overlay}
	out.When = c.condition(r.When, sc, subject+", when")
	for _, set := range r.Set {
		w, ok := c.target(set.Path, sc, subject)
		if !ok {
			continue
		}
		x, p := c.expression(set.Expression, sc, subject+", set "+set.Path.Value)
		if p == nil {
			continue
		}
		if got := x.OutputType(); !w.Typ.CELType().IsExactType(got) {
			c.ps.At(set.Expression, subject+", set "+set.Path.Value, fmt.Sprintf("the expression gives %s, the field holds %s", got, w.Typ)+c.amountHint(x.Ast, w.Typ))
			continue
		}
		c.unitFits(x, sc, w.Typ, subject+", set "+set.Path.Value)
		w.Value = p
		out.Writes = append(out.Writes, w)
	}
	for _, path := range r.Unset {
		if w, ok := c.target(path, sc, subject); ok {
			out.Writes = append(out.Writes, w)
		}
	}
	return out
}

// target resolves the left side of a set: a field of a writable variable.
func (c *compiler) target(path source.Scalar, sc *scopeEnv, subject string) (engine.WritePlan, bool) {
	path.Value = c.axis.Path(path.Value)
	parts := strings.Split(path.Value, ".")
	w := engine.WritePlan{Field: path.Value, Slot: sc.slots[parts[0]]}
	if _, rest, found := strings.Cut(path.Value, "["); found {
		axis, _, _ := strings.Cut(rest, "]")
		message := fmt.Sprintf("%q: brackets take the name of an axis; known: %s", path.Value, strings.Join(slices.Sorted(maps.Keys(c.reg.Axes())), ", "))
		if c.reg.Axes()[axis] != nil {
			message = fmt.Sprintf("%q: the stage does not go through the values of %s; name it in each", path.Value, axis)
		}
		c.ps.At(path, subject, message)
		return w, false
	}
	t, known := sc.types[parts[0]]
	if !known || !sc.writable[parts[0]] || len(parts) < 2 {
		message := fmt.Sprintf("%q cannot be set here; writable: %s", path.Value, strings.Join(sc.writables(), ", "))
		if scopes := c.at.ScopesWith(parts[0]); !known && len(scopes) > 0 {
			message = fmt.Sprintf("%q belongs to the items of %s; give the stage each: %s", path.Value, strings.Join(scopes, ", "), scopes[0])
		}
		c.ps.At(path, subject, message)
		return w, false
	}
	for _, name := range parts[1:] {
		i, ok := 0, false
		if t.Schema() != nil {
			i, ok = t.Schema().Index()[name]
		}
		if !ok {
			message := fmt.Sprintf("%q: %s has no field %q", path.Value, t, name)
			if t.Schema() != nil {
				message += "; " + faults.Has(name, t.Schema().FieldNames())
			}
			c.ps.At(path, subject, message)
			return w, false
		}
		t = t.Schema().Fields()[i].Type
		w.Path = append(w.Path, i)
	}
	w.Typ = t
	if w.Bound = sc.bounds[parts[0]]; w.Bound != nil {
		w.Field = w.Bound.Of + strings.TrimPrefix(path.Value, parts[0])
	}
	return w, true
}

// prose compiles an expression that gives a text; nil without one.
func (c *compiler) prose(s source.Scalar, sc *scopeEnv, subject, field string) *closure.Program {
	if s.IsZero() {
		return nil
	}
	x, p := c.expression(s, sc, subject+", "+field)
	if p != nil && !x.OutputType().IsExactType(cel.StringType) {
		c.ps.At(s, subject, fmt.Sprintf("%s gives %s, it must give string", field, x.OutputType()))
	}
	return p
}

func (c *compiler) decisions(point *registry.Point, set *document.RuleSet, compiled *engine.SetPlan, sc *scopeEnv) {
	subject := "RuleSet " + set.ID()
	sc = sc.child()
	programs := c.variables(c.ordered(set.Variables, sc, subject), sc, subject)
	compiled.Variables = &closure.Variables{Slots: sc.slots, Schemas: sc.schemas, Programs: programs}
	outcomes := map[string]registry.Outcome{}
	var known, classes []string
	for _, o := range point.Outcomes {
		outcomes[o.Name] = o
		known = append(known, o.Name)
	}
	for _, class := range point.Classes {
		classes = append(classes, class.Name)
	}
	for i := range set.Decisions {
		d := &set.Decisions[i]
		at := subject + ", decision " + d.Name.Value
		outcome, exists := outcomes[d.Do.Value]
		switch {
		case !exists:
			from := d.Do
			if from.IsZero() {
				from = d.Name
			}
			c.ps.At(from, at, fmt.Sprintf("do %q is not an outcome of %s; use %s", d.Do.Value, point.Name, strings.Join(known, ", ")))
		case d.Class.IsZero():
		case !outcome.Classed:
			c.ps.At(d.Class, at, fmt.Sprintf("outcome %s of %s has no classes; leave class out", outcome.Name, point.Name))
		case !slices.Contains(classes, d.Class.Value):
			c.ps.At(d.Class, at, fmt.Sprintf("class %q is not known at %s; use %s", d.Class.Value, point.Name, strings.Join(classes, ", ")))
		}
		row := &engine.DecisionPlan{Decision: d, When: c.condition(d.When, sc, at+", when")}
		row.Reason = c.prose(d.ReasonExpression, sc, at, "reasonExpression")
		row.Until = c.prose(d.UntilExpression, sc, at, "untilExpression")
		compiled.Decisions = append(compiled.Decisions, row)
	}
}
