package engine

import (
	"fmt"
	"strings"
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
		if err != nil {
			c.badParam(p, from, overridden, subject, err)
			continue
		}
		compiled.params.put(p.Name.Value, v)
	}
	return fields
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
