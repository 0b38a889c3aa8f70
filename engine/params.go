package engine

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// bindParams gives parameters their values: from an overlay, else from the host, else the default.
func (c *compiler) bindParams(set *RuleSet, compiled *setPlan, overlaid map[string]Scalar, subject string) []Field {
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
		given, overridden := c.params[key]
		from := p.Default
		if v, ok := overlaid[key]; ok {
			from, overridden = v, false
		}
		text := from.Value
		switch {
		case overridden:
			text = given
		case from.IsZero():
			continue
		}
		v, err := c.reg.parseScalar(t, text)
		if err == nil {
			err = c.withinBounds(p, t, text, v, subject)
		}
		if err != nil {
			c.badParam(p, from, overridden, subject, err)
			continue
		}
		compiled.params.put(p.Name.Value, v)
	}
	return fields
}

// withinBounds reports a value beyond the bounds of its parameter.
func (c *compiler) withinBounds(p Param, t Type, text string, v ref.Val, subject string) error {
	for _, bound := range []struct {
		Scalar
		forbidden types.Int // how the value may not compare
		what      string
	}{{p.Min, -1, "below the least allowed"}, {p.Max, 1, "above the most allowed"}} {
		if bound.IsZero() {
			continue
		}
		limit, err := c.reg.parseScalar(t, bound.Value)
		comparer, isNumber := v.(traits.Comparer)
		if err != nil || !isNumber || t.cel == cel.StringType || t.cel == cel.BoolType {
			c.ps.at(bound.Scalar, subject, fmt.Sprintf("param %s: %q is no bound for %s", p.Name.Value, bound.Value, t))
			continue
		}
		if comparer.Compare(limit) == bound.forbidden {
			return fmt.Errorf("%s is %s, %s", text, bound.what, bound.Value)
		}
	}
	return nil
}

// badParam blames the value where it stands, or the flag that gave it.
func (c *compiler) badParam(p Param, from Scalar, overridden bool, subject string, err error) {
	if !overridden {
		c.ps.at(from, subject, fmt.Sprintf("param %s: %v", p.Name.Value, err))
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
