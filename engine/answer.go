package engine

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types/ref"
)

// answer tells all that came out of a row, a line each.
func (r *testRun) answer(reg *Registry) []string {
	var out []string
	switch {
	case r.facts == nil:
		for _, v := range r.violations {
			severity := SeverityDeny
			if v.Warning {
				severity = SeverityWarn
			}
			out = append(out, fmt.Sprintf("%s at %s = %s, %s: %s", v.Rule, v.Path, severity, v.Reason, v.Message))
		}
	case r.facts.point.Kind == DecisionPoint:
		out = append(out, "do = "+r.verdict.Do+" ("+r.verdict.Rule+")", "reason = "+r.verdict.Reason)
	default:
		out = r.written(reg)
	}
	for _, e := range r.failed {
		out = append(out, "rule "+e.Path+" failed")
	}
	return out
}

// written lists the fields that rules can set and that are set, and the notes.
func (r *testRun) written(reg *Registry) []string {
	var out []string
	add := func(prefix string, vars []Var, get func(int) *Record, notes []string) {
		for i, v := range vars {
			if record := get(i); v.Writable && record != nil {
				out = append(out, recordLines(record, reg, prefix+v.Name)...)
			}
		}
		if len(notes) > 0 {
			out = append(out, prefix+"notes = "+strings.Join(notes, "; "))
		}
	}
	record := func(f interface{ get(int) ref.Val }) func(int) *Record {
		return func(i int) *Record { r, _ := f.get(i).(*Record); return r }
	}
	add("", r.facts.point.Vars, record(r.facts), r.facts.Notes)
	for s := range r.facts.point.Scopes {
		scope := &r.facts.point.Scopes[s]
		for _, item := range r.facts.items[s] {
			add(scope.Name+"."+item.Label+".", scope.Vars, record(item), item.Notes)
		}
	}
	return out
}

// recordLines lists the fields of a record that are set, as "path = value".
func recordLines(r *Record, reg *Registry, path string) []string {
	var out []string
	for i, f := range r.schema.fields {
		switch v := r.get(i).(type) {
		case nil:
		case *Record:
			out = append(out, recordLines(v, reg, path+"."+f.Name)...)
		default:
			out = append(out, path+"."+f.Name+" = "+reg.format(f.Type, v))
		}
	}
	return out
}
