package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/internal/resolve"
)

// Diff lists what changes from one plan to another, by point, rule set and entry.
func Diff(from, to *Plan) []string {
	d := &differ{from: from.parts.Resolved, to: to.parts.Resolved, given: to.parts.Params}
	if from.parts.Pipeline != to.parts.Pipeline {
		d.say("pipeline %s → %s", from.parts.Pipeline, to.parts.Pipeline)
	}
	d.paramsOf("param ", "", d.from.Pipeline.Params, d.to.Pipeline.Params)
	d.definitions()
	for _, point := range pointNames(d.from, d.to) {
		d.point(point)
	}
	return d.out
}

type differ struct {
	from, to *resolve.Resolved
	given    map[string]string // parameters that the host sets in both
	out      []string
}

func (d *differ) say(format string, args ...any) { d.out = append(d.out, fmt.Sprintf(format, args...)) }

func pointNames(plans ...*resolve.Resolved) []string {
	var out []string
	for _, r := range plans {
		for _, p := range r.Points {
			if !slices.Contains(out, p.Point.Value) {
				out = append(out, p.Point.Value)
			}
		}
	}
	return out
}

func (d *differ) point(point string) {
	before, old := d.from.SetsAt(point)
	after, now := d.to.SetsAt(point)
	changed := compareLists(before, after,
		func(name string) { d.say("%s: rule set %s no longer runs", point, old[name].ID()) },
		func(name string) { d.say("%s: rule set %s runs%s", point, now[name].ID(), placeIn(after, name)) })
	if moved(before, after) {
		d.say("%s: the order is %s; it was %s", point, strings.Join(after, ", "), strings.Join(before, ", "))
	}
	for _, name := range changed {
		d.set(old[name], now[name])
	}
}

func (d *differ) set(old, now *document.RuleSet) {
	name := now.Name.Value
	if old.Version.Value != now.Version.Value {
		d.say("%s: version %s → %s", name, old.Version.Value, now.Version.Value)
	}
	d.value(name+": gate", old.Gate.Value, now.Gate.Value)
	d.params(old, now)
	d.variables(name, old.Variables, now.Variables)
	oldEntries, entries := old.Entries(), now.Entries()
	same := compareLists(oldEntries, entries,
		func(entry string) { d.say("%s/%s is gone", name, entry) },
		func(entry string) { d.say("%s/%s is new%s", name, entry, placeIn(entries, entry)) })
	if moved(oldEntries, entries) {
		d.say("%s: the order is %s; it was %s", name, strings.Join(entries, ", "), strings.Join(oldEntries, ", "))
	}
	for _, entry := range same {
		i, j := slices.Index(oldEntries, entry), slices.Index(entries, entry)
		path := name + "/" + entry
		switch {
		case len(old.Stages) > 0 && len(now.Stages) > 0:
			d.stage(path, &old.Stages[i], &now.Stages[j])
		case len(old.Decisions) > 0 && len(now.Decisions) > 0:
			a, b := &old.Decisions[i], &now.Decisions[j]
			d.value(path+": when", a.When.Value, b.When.Value)
			d.value(path+": do", a.Do.Value, b.Do.Value)
			d.value(path+": class", a.Class.Value, b.Class.Value)
			d.value(path+": reason", a.Reason, b.Reason)
			d.value(path+": reasonExpression", a.ReasonExpression.Value, b.ReasonExpression.Value)
			d.value(path+": until", a.Until, b.Until)
			d.value(path+": untilExpression", a.UntilExpression.Value, b.UntilExpression.Value)
		case len(old.Validations) > 0 && len(now.Validations) > 0:
			d.validation(path, &old.Validations[i], &now.Validations[j])
		}
	}
}

func (d *differ) params(old, now *document.RuleSet) {
	d.paramsOf(now.Name.Value+": param ", old.Name.Value+".", old.Params, now.Params)
}

// paramsOf compares the parameters of a rule set, or with an empty prefix those of the pipeline.
func (d *differ) paramsOf(what, prefix string, old, now []document.Param) {
	of := func(r *resolve.Resolved, list []document.Param) (names []string, values map[string]string) {
		values = map[string]string{}
		for _, p := range list {
			value := p.Default.Value
			if v, ok := d.given[prefix+p.Name.Value]; ok {
				value = v
			}
			if v, ok := r.Params[prefix+p.Name.Value]; ok {
				value = v.Value
			}
			names = append(names, p.Name.Value)
			values[p.Name.Value] = value
		}
		return names, values
	}
	before, was := of(d.from, old)
	after, is := of(d.to, now)
	for _, name := range compareLists(before, after,
		func(p string) { d.say("%s%s is gone", what, p) },
		func(p string) { d.say("%s%s is new: %s", what, p, orUnset(is[p])) }) {
		d.value(what+name, was[name], is[name])
	}
}

func (d *differ) variables(path string, old, now []document.Variable) {
	of := func(list []document.Variable) (names []string, values map[string]string) {
		values = map[string]string{}
		for _, v := range list {
			names = append(names, v.Name.Value)
			values[v.Name.Value] = v.Expression.Value
		}
		return names, values
	}
	before, was := of(old)
	after, is := of(now)
	for _, name := range compareLists(before, after,
		func(v string) { d.say("%s: variable %s is gone", path, v) },
		func(v string) { d.say("%s: variable %s is new: %s", path, v, is[v]) }) {
		d.value(path+": variable "+name, was[name], is[name])
	}
}

func (d *differ) stage(path string, old, now *document.Stage) {
	d.value(path+": each", resolve.Commas(old.Each), resolve.Commas(now.Each))
	d.value(path+": without", resolve.Commas(old.Without), resolve.Commas(now.Without))
	d.value(path+": when", old.When.Value, now.When.Value)
	d.value(path+": onError", old.OnError.Value, now.OnError.Value)
	d.value(path+": solve", old.Solve.Value, now.Solve.Value)
	d.variables(path, old.Variables, now.Variables)
	ruleNames := func(s *document.Stage) (out []string) {
		for _, r := range s.Rules {
			out = append(out, r.Name.Value)
		}
		return out
	}
	before, after := ruleNames(old), ruleNames(now)
	same := compareLists(before, after,
		func(r string) { d.say("%s/%s is gone", path, r) },
		func(r string) { d.say("%s/%s is new%s", path, r, placeIn(after, r)) })
	if moved(before, after) {
		d.say("%s: the order is %s; it was %s", path, strings.Join(after, ", "), strings.Join(before, ", "))
	}
	for _, name := range same {
		d.rule(path+"/"+name, &old.Rules[slices.Index(before, name)], &now.Rules[slices.Index(after, name)])
	}
}

func (d *differ) rule(path string, old, now *document.Rule) {
	d.value(path+": when", old.When.Value, now.When.Value)
	d.value(path+": without", resolve.Commas(old.Without), resolve.Commas(now.Without))
	of := func(r *document.Rule) (names []string, values map[string]string) {
		values = map[string]string{}
		for _, a := range r.Set {
			names = append(names, a.Path.Value)
			values[a.Path.Value] = a.Expression.Value
		}
		for _, u := range r.Unset {
			names = append(names, u.Value)
			values[u.Value] = "unset"
		}
		return names, values
	}
	before, was := of(old)
	after, is := of(now)
	for _, field := range compareLists(before, after,
		func(f string) { d.say("%s: no longer sets %s", path, f) },
		func(f string) { d.say("%s: sets %s to %s", path, f, is[f]) }) {
		d.value(path+": set "+field, was[field], is[field])
	}
	d.value(path+": note", old.Note.Value, now.Note.Value)
}

func (d *differ) validation(path string, old, now *document.Validation) {
	for _, tt := range []struct{ key, from, to string }{
		{"axes", resolve.Commas(old.Axes), resolve.Commas(now.Axes)}, {"without", resolve.Commas(old.Without), resolve.Commas(now.Without)},
		{"at", resolve.Commas(old.At), resolve.Commas(now.At)}, {"enforce", resolve.Commas(old.Enforce), resolve.Commas(now.Enforce)}, {"when", old.When.Value, now.When.Value},
		{"expression", old.Expression.Value, now.Expression.Value}, {"message", old.Message.Value, now.Message.Value},
		{"messageExpression", old.MessageExpression.Value, now.MessageExpression.Value}, {"fieldPath", old.FieldPath.Value, now.FieldPath.Value},
		{"reason", old.Reason.Value, now.Reason.Value}, {"severity", old.Severity.Value, now.Severity.Value},
	} {
		d.value(path+": "+tt.key, tt.from, tt.to)
	}
}

func (d *differ) value(what, from, to string) {
	if from != to {
		d.say("%s %s → %s", what, orUnset(from), orUnset(to))
	}
}

func orUnset(text string) string {
	if text == "" {
		return "unset"
	}
	return text
}

// compareLists calls gone and added for differences, and returns common names in after's order.
func compareLists(before, after []string, gone, added func(string)) (both []string) {
	for _, name := range before {
		if !slices.Contains(after, name) {
			gone(name)
		}
	}
	for _, name := range after {
		if slices.Contains(before, name) {
			both = append(both, name)
		} else {
			added(name)
		}
	}
	return both
}

// moved reports whether the common names changed order.
func moved(before, after []string) bool {
	keep := func(list, other []string) []string {
		var out []string
		for _, name := range list {
			if slices.Contains(other, name) {
				out = append(out, name)
			}
		}
		return out
	}
	return !slices.Equal(keep(before, after), keep(after, before))
}

// placeIn describes the position of a name in a list.
func placeIn(list []string, name string) string {
	switch i := slices.Index(list, name); {
	case len(list) == 1:
		return ""
	case i == 0:
		return ", before " + list[1]
	default:
		return ", after " + list[i-1]
	}
}

// definitions compares those of the pipelines. A changed one changes all that calls it.
func (d *differ) definitions() {
	of := func(r *resolve.Resolved) (names []string, byName map[string]*document.Definition) {
		byName = map[string]*document.Definition{}
		for i := range r.Pipeline.Definitions {
			f := &r.Pipeline.Definitions[i]
			names = append(names, f.Name.Value)
			byName[f.Name.Value] = f
		}
		return names, byName
	}
	before, was := of(d.from)
	after, is := of(d.to)
	for _, name := range compareLists(before, after,
		func(name string) { d.say("definition %s is gone", was[name].Signature()) },
		func(name string) { d.say("definition %s is new: %s", is[name].Signature(), is[name].Expression.Value) }) {
		old, now := was[name], is[name]
		if old.Signature() == now.Signature() && old.Expression.Value == now.Expression.Value {
			continue
		}
		from := old.Expression.Value
		if old.Signature() != now.Signature() {
			from = old.Signature() + ": " + from
		}
		d.say("definition %s: %s → %s%s", now.Signature(), from, now.Expression.Value, d.callers(now))
	}
}

// callers names the entries of rule sets that call a definition.
func (d *differ) callers(f *document.Definition) string {
	var out []string
	for _, point := range d.to.Points {
		for _, placed := range point.Sets {
			for i, entry := range placed.Set.Entries() {
				if slices.Contains(d.to.Pipeline.CalledBy(placed.Set.Only(i, -1)), f) {
					out = append(out, placed.Set.Name.Value+"/"+entry)
				}
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ", called by " + strings.Join(slices.Compact(out), ", ")
}
