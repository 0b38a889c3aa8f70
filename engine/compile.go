package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/google/cel-go/cel"
)

// CompileOptions select a pipeline and fix what is constant for its plan.
type CompileOptions struct {
	// Pipeline is name@version, or a name that only one version has.
	Pipeline string
	// Gates switches feature gates; gates left out are off.
	Gates map[string]bool
	// Params overrides parameter defaults, keyed "ruleset.param", written as in YAML.
	Params map[string]string
}

// Compile type-checks a pipeline and everything it names. The error lists every fault with its position.
func Compile(lib *Library, reg *Registry, opts CompileOptions) (*Plan, error) {
	pipe, err := lib.pipeline(opts.Pipeline)
	if err != nil {
		return nil, err
	}
	base, err := reg.baseEnv()
	if err != nil {
		return nil, fmt.Errorf("building the rule environment: %w", err)
	}
	c := &compiler{lib: lib, reg: reg, opts: opts, base: base, ps: &problems{}, findings: &problems{}, usedParams: map[string]bool{}}
	c.unitFunctions = map[string]string{}
	for name, u := range reg.units {
		if u.Func != "" {
			c.unitFunctions[u.Func] = name
		}
	}
	for gate := range opts.Gates {
		if _, known := reg.gates[gate]; !known {
			return nil, fmt.Errorf("no feature gate %q; known: %s", gate, strings.Join(sortedKeys(reg.gates), ", "))
		}
	}
	plan := &Plan{pipeline: pipe.ID(), points: map[string]*pointPlan{}}
	gateSchema := reg.gateSchema()
	c.gates = gateSchema.New()
	for name := range reg.gates {
		c.gates.SetBool(name, opts.Gates[name])
	}
	c.gateType = RecordOf(gateSchema)
	for _, at := range pipe.Points {
		c.point(plan, pipe, at)
	}
	for _, name := range sortedKeys(reg.points) {
		if plan.points[name] == nil {
			c.ps.at(pipe.Name, "Pipeline "+pipe.ID(), fmt.Sprintf("point %s is not named; list its rule sets, or [] when none are meant to run there", name))
		}
	}
	if err := c.ps.err(); err != nil {
		return nil, err
	}
	for key := range opts.Params {
		if !c.usedParams[key] {
			return nil, fmt.Errorf("no parameter %q in pipeline %s: write it as <rule set>.<param>", key, pipe.ID())
		}
	}
	c.findings.sort()
	plan.findings = c.findings.list
	plan.digest = c.digest(pipe, plan)
	for _, at := range plan.points {
		at.assemble(false)
	}
	return plan, nil
}

type compiler struct {
	lib        *Library
	reg        *Registry
	opts       CompileOptions
	base       *cel.Env
	gates      *Record
	gateType   Type
	ps         *problems
	findings   *problems
	usedParams map[string]bool
	used       *usage // of the rule set at hand

	unitFunctions map[string]string // function name of a unit, e.g. mem, to the unit
}

func (c *compiler) point(plan *Plan, pipe *Pipeline, at PipelinePoint) {
	subject := "Pipeline " + pipe.ID()
	point := c.reg.points[at.Point.Value]
	if point == nil {
		c.ps.at(at.Point, subject, fmt.Sprintf("no point %q; known: %s", at.Point.Value, strings.Join(sortedKeys(c.reg.points), ", ")))
		return
	}
	compiled := &pointPlan{point: point}
	plan.points[point.Name] = compiled
	seen := map[string]bool{}
	for _, name := range at.RuleSets {
		set := c.lib.RuleSets[name.Value]
		switch {
		case set == nil:
			c.ps.at(name, subject, fmt.Sprintf("no rule set %q; loaded: %s", name.Value, strings.Join(sortedKeys(c.lib.RuleSets), ", ")))
			continue
		case set.Point.Value != point.Name:
			c.ps.at(name, subject, fmt.Sprintf("rule set %s plugs in at %s, not at %s", name.Value, set.Point.Value, point.Name))
			continue
		case seen[name.Value]:
			c.ps.at(name, subject, fmt.Sprintf("rule set %s stands twice at %s", name.Value, point.Name))
			continue
		}
		seen[name.Value] = true
		if s := c.set(point, set); s != nil {
			compiled.sets = append(compiled.sets, s)
		}
	}
}

// set compiles a rule set; it returns nil when its gate is off. A gated-off set is still type-checked.
func (c *compiler) set(point *Point, set *RuleSet) *setPlan {
	subject := "RuleSet " + set.ID()
	kind := map[PointKind]int{StagePoint: len(set.Stages), DecisionPoint: len(set.Decisions), ValidationPoint: len(set.Validations)}
	if kind[point.Kind] == 0 {
		c.ps.at(set.Point, subject, fmt.Sprintf("point %s takes %s", point.Name, point.Kind))
		return nil
	}
	on := true
	if !set.Gate.IsZero() {
		if _, known := c.reg.gates[set.Gate.Value]; !known {
			c.ps.at(set.Gate, subject, fmt.Sprintf("no feature gate %q; known: %s", set.Gate.Value, strings.Join(sortedKeys(c.reg.gates), ", ")))
		}
		on = c.opts.Gates[set.Gate.Value]
	}
	compiled := &setPlan{ruleSet: set, types: c.reg, gates: c.gates}
	c.used = &usage{names: map[string]bool{}}
	switch point.Kind {
	case ValidationPoint:
		if len(set.Params) > 0 {
			c.ps.at(set.Params[0].Name, subject, "validations read no params; write the value into the expression")
		}
		c.validations(point, set, compiled)
	default:
		sc := c.scopeFor(point, set, compiled, subject)
		if sc == nil {
			return nil
		}
		if point.Kind == DecisionPoint {
			c.decisions(point, set, compiled, sc)
		} else {
			for i := range set.Stages {
				compiled.stages = append(compiled.stages, c.stage(point, &set.Stages[i], sc, subject))
			}
		}
	}
	c.unused(set, c.used)
	c.unreachable(set)
	if !on {
		return nil
	}
	return compiled
}

// scopeFor types what every expression of a rule set sees: the point's variables, params and gates.
func (c *compiler) scopeFor(point *Point, set *RuleSet, compiled *setPlan, subject string) *scopeEnv {
	fields := c.params(set, compiled, subject)
	paramSchema := compiled.params.schema
	sc := &scopeEnv{types: map[string]Type{}, writable: map[string]bool{}, slots: map[string]slot{}}
	schemas := map[string]*Schema{paramSchema.name: paramSchema, c.gateType.schema.name: c.gateType.schema}
	for name, s := range c.reg.schemas {
		schemas[name] = s
	}
	sc.schemas = schemas
	options := []cel.EnvOption{cel.CustomTypeProvider(&provider{Provider: c.base.CELTypeProvider(), schemas: schemas})}
	sc.declare(&options, "gates", c.gateType, false, slot{kind: gateSlot})
	if len(fields) > 0 {
		sc.declare(&options, "params", RecordOf(paramSchema), false, slot{kind: paramSlot})
	}
	for i, v := range point.Vars {
		sc.declare(&options, v.Name, v.Type, v.Writable, slot{kind: factSlot, index: i})
	}
	env, err := c.base.Extend(options...)
	if err != nil {
		c.ps.at(set.Name, subject, err.Error())
		return nil
	}
	sc.env = env
	return sc
}

func (c *compiler) params(set *RuleSet, compiled *setPlan, subject string) []Field {
	var fields []Field
	for _, p := range set.Params {
		t, ok := c.reg.typeNamed(p.Type.Value)
		if !ok {
			c.ps.at(p.Name, subject, fmt.Sprintf("param %s has type %q; known: int, double, bool, string, %s",
				p.Name.Value, p.Type.Value, strings.Join(sortedKeys(c.reg.units), ", ")))
			continue
		}
		fields = append(fields, Field{Name: p.Name.Value, Type: t, Doc: p.Description})
	}
	compiled.params = NewSchema("params/"+set.Name.Value, dedupe(fields)...).New()
	for _, p := range set.Params {
		t, ok := c.reg.typeNamed(p.Type.Value)
		if !ok {
			continue
		}
		key := set.Name.Value + "." + p.Name.Value
		text, overridden := c.opts.Params[key]
		if overridden {
			c.usedParams[key] = true
		} else if p.Default.IsZero() {
			continue
		} else {
			text = p.Default.Value
		}
		v, err := c.reg.parseScalar(t, text)
		if err != nil {
			c.badParam(p, overridden, subject, err)
			continue
		}
		compiled.params.put(p.Name.Value, v)
	}
	return fields
}

// badParam blames the default where it stands, or whoever overrode it.
func (c *compiler) badParam(p Param, overridden bool, subject string, err error) {
	if !overridden {
		c.ps.at(p.Default, subject, fmt.Sprintf("param %s: %v", p.Name.Value, err))
		return
	}
	by := "the value given for it"
	if p.Flag != "" {
		by = "--" + p.Flag
	}
	c.ps.add(&Problem{Pos: p.Name.Pos, Subject: subject, Message: fmt.Sprintf("param %s, from %s: %v", p.Name.Value, by, err)})
}

func dedupe(fields []Field) []Field {
	seen := map[string]bool{}
	var out []Field
	for _, f := range fields {
		if !seen[f.Name] {
			out = append(out, f)
		}
		seen[f.Name] = true
	}
	return out
}

func (c *compiler) stage(point *Point, st *Stage, sc *scopeEnv, subject string) *stagePlan {
	subject += ", stage " + st.Name.Value
	out := &stagePlan{name: st.Name.Value, scope: -1, skipOnError: st.OnError.Value == OnErrorSkipStage}
	sc = sc.child()
	if !st.Each.IsZero() {
		scope := point.scope(st.Each.Value)
		if scope == nil {
			c.ps.at(st.Each, subject, fmt.Sprintf("point %s has no scope %q; known: %s", point.Name, st.Each.Value, strings.Join(sortedKeys(point.scopeIndex), ", ")))
			return out
		}
		out.scope = point.scopeIndex[scope.Name]
		var options []cel.EnvOption
		for i, v := range scope.Vars {
			sc.declare(&options, v.Name, v.Type, v.Writable, slot{kind: itemSlot, index: i})
		}
		if !c.extend(sc, options, st.Each, subject) {
			return out
		}
	}
	programs := c.variables(st.Variables, sc, subject)
	out.vars = &variables{slots: sc.slots, schemas: sc.schemas, programs: programs}
	out.when = c.condition(st.When, sc, subject+", when")
	for i := range st.Rules {
		out.rules = append(out.rules, c.rule(&st.Rules[i], sc, subject))
	}
	return out
}

func (c *compiler) rule(r *Rule, sc *scopeEnv, subject string) *rulePlan {
	subject += ", rule " + r.Name.Value
	out := &rulePlan{name: r.Name.Value, pos: r.Name.Pos, note: r.Note.Value}
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
	parts := strings.Split(path.Value, ".")
	w := writePlan{field: path.Value, slot: sc.slots[parts[0]]}
	t, known := sc.types[parts[0]]
	if !known || !sc.writable[parts[0]] || len(parts) < 2 {
		c.ps.at(path, subject, fmt.Sprintf("%q cannot be set here; writable: %s", path.Value, strings.Join(sc.writables(), ", ")))
		return w, false
	}
	for _, name := range parts[1:] {
		i, ok := 0, false
		if t.schema != nil {
			i, ok = t.schema.index[name]
		}
		if !ok {
			c.ps.at(path, subject, fmt.Sprintf("%q: %s has no field %q", path.Value, t, name))
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
	programs := c.variables(set.Variables, sc, subject)
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

func (c *compiler) digest(pipe *Pipeline, plan *Plan) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", ProfileVersion, pipe.ID())
	for _, name := range sortedKeys(plan.points) {
		fmt.Fprintf(h, "point %s\n", name)
		for _, s := range plan.points[name].sets {
			writeRuleSet(h, s)
		}
	}
	for _, gate := range sortedKeys(c.reg.gates) {
		fmt.Fprintf(h, "gate %s %v\n", gate, c.opts.Gates[gate])
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// writeRuleSet feeds a rule set's meaning to the digest: its expressions and parameter values, not its prose.
func writeRuleSet(w io.Writer, s *setPlan) {
	set := s.ruleSet
	fmt.Fprintf(w, "set %q\n", set.ID())
	if s.params != nil {
		for i, f := range s.params.schema.fields {
			fmt.Fprintf(w, "param %q %v\n", f.Name, s.params.get(i))
		}
	}
	variable := func(v Variable) { fmt.Fprintf(w, "var %q %q\n", v.Name.Value, v.Expression.Value) }
	for _, v := range set.Variables {
		variable(v)
	}
	for _, d := range set.Decisions {
		fmt.Fprintf(w, "decision %q %q %q %q\n", d.Name.Value, d.When.Value, d.Do.Value, d.ReasonExpression.Value)
	}
	for _, st := range set.Stages {
		fmt.Fprintf(w, "stage %q %q %q %q\n", st.Name.Value, st.Each.Value, st.When.Value, st.OnError.Value)
		for _, v := range st.Variables {
			variable(v)
		}
		for _, r := range st.Rules {
			fmt.Fprintf(w, "rule %q %q %q\n", r.Name.Value, r.When.Value, r.Note.Value)
			for _, a := range r.Set {
				fmt.Fprintf(w, "set %q %q\n", a.Path.Value, a.Expression.Value)
			}
			for _, u := range r.Unset {
				fmt.Fprintf(w, "unset %q\n", u.Value)
			}
		}
	}
	for _, v := range set.Validations {
		fmt.Fprintf(w, "validation %q %q %q %q %q %q %q %q %q\n", v.Severity.Value, v.Name.Value, v.At.Value, v.When.Value, v.Expression.Value,
			v.Message.Value, v.MessageExpression.Value, v.FieldPath.Value, v.Reason.Value)
	}
}
