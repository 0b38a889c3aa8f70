package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
)

// stages compiles a stage, once for each scope and each value of its axis.
func (c *compiler) stages(point *Point, st *Stage, sc *scopeEnv, subject string) []*stagePlan {
	subject += ", stage " + st.Name.Value
	scopes, axis, ok := c.each(point, st.Each, subject)
	if !ok {
		return nil
	}
	c.oneFieldEach(axis, st, subject)
	named := c.ordered(st.Variables, sc, subject)
	var out []*stagePlan
	first := len(c.ps.list)
	for _, scope := range scopes {
		for _, value := range c.valuesBut(axis, st.Without, subject) {
			before := len(c.ps.list)
			c.axis = value
			out = append(out, c.stage(point, st, named, scope, sc, subject))
			c.ps.dropToldAt(first, before)
		}
	}
	c.axis = nil
	return out
}

func (c *compiler) stage(point *Point, st *Stage, named []Variable, scope *Scope, sc *scopeEnv, subject string) *stagePlan {
	out := &stagePlan{name: st.Name.Value, axis: c.axis, scope: -1, skipOnError: st.OnError.Value == OnErrorSkipStage, overlay: st.Overlay}
	sc = sc.child()
	if scope != nil {
		out.scope = point.scopeIndex[scope.Name]
		var options []cel.EnvOption
		for i, v := range scope.Vars {
			sc.declare(&options, v.Name, v.Type, v.Writable, slot{kind: itemSlot, index: i})
		}
		if !c.extend(sc, options, st.Name, subject) {
			return out
		}
	}
	programs := c.variables(named, sc, subject)
	out.vars = &variables{slots: sc.slots, schemas: sc.schemas, programs: programs}
	out.when = c.condition(st.When, sc, subject+", when")
	for i := range st.Rules {
		r := &st.Rules[i]
		c.valuesBut(axisAt(c.axis), r.Without, subject+", rule "+r.Name.Value)
		if c.axis == nil || !isLeftOut(r.Without, c.axis.value) {
			out.rules = append(out.rules, c.rule(r, sc, subject))
		}
	}
	return out
}

func (c *compiler) rule(r *Rule, sc *scopeEnv, subject string) *rulePlan {
	subject += ", rule " + r.Name.Value
	out := &rulePlan{name: r.Name.Value, pos: r.Name.Pos, note: c.axis.text(r.Note.Value), overlay: r.Overlay}
	out.when = c.condition(r.When, sc, subject+", when")
	for _, set := range r.Set {
		w, ok := c.target(set.Path, sc, subject)
		if !ok {
			continue
		}
		ast, p := c.expression(set.Expression, sc, subject+", set "+set.Path.Value)
		if p == nil {
			continue
		}
		if got := ast.OutputType(); !w.typ.cel.IsExactType(got) {
			c.ps.at(set.Expression, subject+", set "+set.Path.Value, fmt.Sprintf("the expression gives %s, the field holds %s", got, w.typ))
			continue
		}
		if unit := c.unitOf(ast, sc, set.Expression, subject+", set "+set.Path.Value); unit != "" && w.typ.unit != "" && unit != w.typ.unit {
			c.ps.at(set.Expression, subject+", set "+set.Path.Value, fmt.Sprintf("the expression gives %s, the field holds %s", IntOf(unit), w.typ))
		}
		w.value = p
		out.writes = append(out.writes, w)
	}
	for _, path := range r.Unset {
		if w, ok := c.target(path, sc, subject); ok {
			out.writes = append(out.writes, w)
		}
	}
	return out
}

// target resolves the left side of a set: a field of a writable variable.
func (c *compiler) target(path Scalar, sc *scopeEnv, subject string) (writePlan, bool) {
	path.Value = c.axis.path(path.Value)
	parts := strings.Split(path.Value, ".")
	w := writePlan{field: path.Value, slot: sc.slots[parts[0]]}
	if _, rest, found := strings.Cut(path.Value, "["); found {
		axis, _, _ := strings.Cut(rest, "]")
		message := fmt.Sprintf("%q: brackets take the name of an axis; known: %s", path.Value, strings.Join(slices.Sorted(maps.Keys(c.reg.axes)), ", "))
		if c.reg.axes[axis] != nil {
			message = fmt.Sprintf("%q: the stage does not go through the values of %s; name it in each", path.Value, axis)
		}
		c.ps.at(path, subject, message)
		return w, false
	}
	t, known := sc.types[parts[0]]
	if !known || !sc.writable[parts[0]] || len(parts) < 2 {
		message := fmt.Sprintf("%q cannot be set here; writable: %s", path.Value, strings.Join(sc.writables(), ", "))
		if scopes := c.at.scopesWith(parts[0]); !known && len(scopes) > 0 {
			message = fmt.Sprintf("%q belongs to the items of %s; give the stage each: %s", path.Value, strings.Join(scopes, ", "), scopes[0])
		}
		c.ps.at(path, subject, message)
		return w, false
	}
	for _, name := range parts[1:] {
		i, ok := 0, false
		if t.schema != nil {
			i, ok = t.schema.index[name]
		}
		if !ok {
			message := fmt.Sprintf("%q: %s has no field %q", path.Value, t, name)
			if t.schema != nil {
				message += "; it has " + strings.Join(t.schema.fieldNames(), ", ")
			}
			c.ps.at(path, subject, message)
			return w, false
		}
		t = t.schema.fields[i].Type
		w.path = append(w.path, i)
	}
	w.typ = t
	return w, true
}

func (c *compiler) decisions(point *Point, set *RuleSet, compiled *setPlan, sc *scopeEnv) {
	subject := "RuleSet " + set.ID()
	sc = sc.child()
	programs := c.variables(c.ordered(set.Variables, sc, subject), sc, subject)
	compiled.variables = &variables{slots: sc.slots, schemas: sc.schemas, programs: programs}
	outcomes := map[string]bool{}
	var known []string
	for _, o := range point.Outcomes {
		outcomes[o.Name] = true
		known = append(known, o.Name)
	}
	for i := range set.Decisions {
		d := &set.Decisions[i]
		at := subject + ", decision " + d.Name.Value
		if !outcomes[d.Do.Value] {
			from := d.Do
			if from.IsZero() {
				from = d.Name
			}
			c.ps.at(from, at, fmt.Sprintf("do %q is not an outcome of %s; use %s", d.Do.Value, point.Name, strings.Join(known, ", ")))
		}
		row := &decisionPlan{decision: d, when: c.condition(d.When, sc, at+", when")}
		if !d.ReasonExpression.IsZero() {
			ast, p := c.expression(d.ReasonExpression, sc, at+", reasonExpression")
			if p != nil && !ast.OutputType().IsExactType(cel.StringType) {
				c.ps.at(d.ReasonExpression, at, fmt.Sprintf("reasonExpression gives %s, it must give string", ast.OutputType()))
			}
			row.reason = p
		}
		compiled.decisions = append(compiled.decisions, row)
	}
}
