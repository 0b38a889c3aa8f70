package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/resolve"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

// setting is a parameter that a rule set reads, and the source of its value.
type setting struct {
	param    document.Param
	key      string        // set.param, or the bare name if shared
	declarer string        // the pipeline that declares it; empty = the rule set does
	from     source.Scalar // the default or an overlay's value
	overlaid bool
}

// settings returns a rule set's parameters, and those of the pipeline that it reads.
func (c *compiler) settings(r *resolve.Resolved, set *document.RuleSet) []setting {
	var out []setting
	add := func(p document.Param, key, declarer string) {
		s := setting{param: p, key: key, declarer: declarer, from: p.Default}
		if v, ok := r.Params[key]; ok {
			s.from, s.overlaid = v, true
		}
		out = append(out, s)
	}
	for i := range set.Params {
		add(set.Params[i], document.ParamKeyOf(set, &set.Params[i]), "")
	}
	reads := r.Pipeline.ReadsParams(set)
	for _, p := range r.Pipeline.Params {
		if name, _ := document.CutParam(p.Name.Value); reads[name] {
			add(p, p.Name.Value, r.Pipeline.ParamFrom(p.Name.Value).Subject())
		}
	}
	return out
}

// declaredOnce reports names and flags that a pipeline and its rule sets declare twice.
func (c *compiler) declaredOnce(r *resolve.Resolved) {
	type declared struct {
		at    source.Position
		where string
	}
	shared, flags := map[string]declared{}, map[string]declared{}
	flag := func(p *document.Param, subject string) {
		if p.Flag == "" {
			return
		}
		if other, twice := flags[p.Flag]; twice && other.at != p.Name.Pos {
			c.ps.At(p.Name, subject, fmt.Sprintf("param %s has the flag --%s, and so has one of %s at %s; declare a param that several rule sets read once, in the pipeline",
				p.Name.Value, p.Flag, other.where, other.at))
		}
		flags[p.Flag] = declared{p.Name.Pos, subject}
	}
	for i := range r.Pipeline.Params {
		p := &r.Pipeline.Params[i]
		subject := r.Pipeline.ParamFrom(p.Name.Value).Subject()
		name, _ := document.CutParam(p.Name.Value)
		shared[name] = declared{p.Name.Pos, subject}
		flag(p, subject)
	}
	for _, point := range r.Points {
		for _, placed := range point.Sets {
			if other, same := shared[placed.Set.Name.Value]; same {
				c.ps.At(placed.Set.Name, "RuleSet "+placed.Set.ID(), fmt.Sprintf("%s declares a param of the same name at %s, so that %s.… could mean either; give one another name",
					other.where, other.at, placed.Set.Name.Value))
			}
			for i := range placed.Set.Params {
				p := &placed.Set.Params[i]
				name, _ := document.CutParam(p.Name.Value)
				if other, twice := shared[name]; twice {
					c.ps.At(p.Name, "RuleSet "+placed.Set.ID(), fmt.Sprintf("param %s is declared by %s at %s too, for all rule sets; remove one of them, or rename it",
						name, other.where, other.at))
				}
				flag(p, "RuleSet "+placed.Set.ID())
			}
		}
	}
}

// bindParams sets parameters from an overlay, else from the host, else to the default.
func (c *compiler) bindParams(set *document.RuleSet, compiled *engine.SetPlan, params []setting, subject string) []lang.Field {
	fields, nested := c.paramFields(set, params, subject)
	compiled.Params = lang.NewSchema("params/"+set.Name.Value, fields...).New()
	for _, s := range nested {
		compiled.Params.Put(s.Name()[strings.LastIndex(s.Name(), "/")+1:], s.New())
	}
	for _, s := range params {
		t, ok := c.reg.TypeNamed(s.param.Type.Value)
		if !ok {
			continue
		}
		given, overridden := c.params[s.key]
		overridden = overridden && !s.overlaid
		text, subject := s.from.Value, subject
		if s.declarer != "" {
			subject = s.declarer // the same for all rule sets that read it
		}
		switch {
		case overridden:
			text = given
		case s.from.IsZero():
			continue
		}
		v, err := c.reg.ParseScalar(t, text)
		if err == nil {
			err = c.withinBounds(s.param, t, text, v, subject)
		}
		if err != nil {
			c.badParam(s.param, s.from, overridden, subject, err)
			continue
		}
		name, value := document.CutParam(s.param.Name.Value)
		i, known := compiled.Params.Schema().Index()[name]
		if !known {
			continue // reported already
		}
		if inner, several := compiled.Params.At(i).(*lang.Record); several && value != "" {
			inner.Put(value, v)
		} else if !several && value == "" {
			compiled.Params.Put(name, v)
		}
	}
	return fields
}

// paramFields types the parameters. One with axis values, as name.cpu and name.memory, is a record.
func (c *compiler) paramFields(set *document.RuleSet, params []setting, subject string) (fields []lang.Field, nested []*lang.Schema) {
	values := map[string][]lang.Field{}
	var names []string
	docs, single := map[string]lang.Field{}, map[string]bool{}
	c.faultyParams = map[string]bool{}
	for _, s := range params {
		t, ok := c.reg.TypeNamed(s.param.Type.Value)
		name, value := document.CutParam(s.param.Name.Value)
		if !ok {
			c.faultyParams[name] = true
			c.ps.At(s.param.Name, subject, fmt.Sprintf("param %s has type %q; known: %s",
				s.param.Name.Value, s.param.Type.Value, strings.Join(c.reg.TypeNames(), ", ")))
			continue
		}
		if _, known := docs[name]; !known {
			names = append(names, name)
		}
		docs[name] = lang.Field{Name: name, Type: t, Doc: s.param.Description}
		if value == "" {
			single[name] = true
			continue
		}
		if !s.param.Each.IsZero() && c.axisNamed(s.param.Each, subject+", param "+name) == nil {
			continue
		}
		if !slices.ContainsFunc(values[name], func(f lang.Field) bool { return f.Name == value }) { // duplicates are reported elsewhere
			values[name] = append(values[name], lang.Field{Name: value, Type: t, Doc: s.param.Description})
		}
	}
	for _, name := range names {
		if c.faultyParams[name] {
			continue
		}
		if values[name] == nil {
			if single[name] {
				fields = append(fields, docs[name])
			}
			continue
		}
		at := paramIn(params, name)
		if single[name] {
			c.ps.At(at, subject, fmt.Sprintf("param %s has one value, and also one for each value of an axis; remove one of them, or rename it", name))
			continue
		}
		var of []string
		for _, f := range values[name] {
			of = append(of, f.Name)
		}
		if c.reg.AxisOf(of) == nil {
			c.ps.At(at, subject, fmt.Sprintf("param %s has values for %s, and no axis has just these; known: %s", name, strings.Join(of, ", "), strings.Join(c.reg.AxesInWords(), "; ")))
			continue
		}
		schema := lang.NewSchema("params/"+set.Name.Value+"/"+name, values[name]...)
		nested = append(nested, schema)
		fields = append(fields, lang.Field{Name: name, Type: lang.RecordOf(schema)})
	}
	return fields, nested
}

// paramIn returns the last declaration of a parameter.
func paramIn(params []setting, name string) (at source.Scalar) {
	for _, s := range params {
		if base, _ := document.CutParam(s.param.Name.Value); base == name {
			at = s.param.Name
		}
	}
	return at
}

// schemasWith returns the schemas that expressions know: the registry's, gates and params.
func (c *compiler) schemasWith(params *lang.Schema) map[string]*lang.Schema {
	out := params.WithNested()
	out[c.gateType.Schema().Name()] = c.gateType.Schema()
	maps.Copy(out, c.reg.Schemas())
	return out
}

// withinBounds checks a value against the bounds of its parameter.
func (c *compiler) withinBounds(p document.Param, t lang.Type, text string, v ref.Val, subject string) error {
	for _, bound := range []struct {
		source.Scalar
		forbidden types.Int // comparison result
		what      string
	}{{p.Min, -1, "below the least allowed"}, {p.Max, 1, "above the most allowed"}} {
		if bound.IsZero() {
			continue
		}
		limit, err := c.reg.ParseScalar(t, bound.Value)
		comparer, isNumber := v.(traits.Comparer)
		if err != nil || !isNumber || t.CELType() == cel.StringType || t.CELType() == cel.BoolType {
			c.ps.At(bound.Scalar, subject, fmt.Sprintf("param %s: %q is not a valid bound for %s", p.Name.Value, bound.Value, t))
			continue
		}
		if comparer.Compare(limit) == bound.forbidden {
			return fmt.Errorf("%s is %s, %s", text, bound.what, bound.Value)
		}
	}
	return nil
}

// badParam reports a bad value where it is written or, if the host gave it, at its flag or else where the parameter is declared.
func (c *compiler) badParam(p document.Param, from source.Scalar, overridden bool, subject string, err error) {
	if !overridden {
		c.ps.At(from, subject, fmt.Sprintf("param %s: %v", p.Name.Value, err))
		return
	}
	if p.Flag == "" {
		c.ps.Add(&source.Problem{Pos: p.Name.Pos, Subject: subject, Message: fmt.Sprintf("param %s: %v", p.Name.Value, err)})
		return
	}
	c.ps.Add(&source.Problem{Message: fmt.Sprintf("--%s: %v (param %s of %s, at %s)", p.Flag, err, p.Name.Value, subject, p.Name.Pos)})
}
