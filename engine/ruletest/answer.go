package ruletest

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types/ref"

	"github.com/celvpa/celvpa/engine/document"
	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/registry"
)

// answer lists the results of a row, one per line.
func (r *testRun) answer(reg *registry.Registry) []string {
	var out []string
	switch {
	case r.facts == nil:
		for _, v := range r.violations {
			severity := document.SeverityDeny
			if v.Warning {
				severity = document.SeverityWarn
			}
			out = append(out, fmt.Sprintf("%s at %s = %s, %s: %s", v.Rule, v.Path, severity, v.Reason, v.Message))
		}
	case r.facts.Point().Kind == registry.DecisionPoint:
		out = append(out, "do = "+r.verdict.Do+" ("+r.verdict.Rule+")", "reason = "+r.verdict.Reason)
	default:
		out = r.written(reg)
	}
	for _, e := range r.failed {
		out = append(out, "rule "+e.Path+" failed")
	}
	return out
}

// written lists the writable fields that are set, and the notes.
func (r *testRun) written(reg *registry.Registry) []string {
	var out []string
	add := func(prefix string, vars []registry.Var, get func(int) *lang.Record, notes []string) {
		for i, v := range vars {
			if record := get(i); v.Writable && record != nil {
				out = append(out, recordLines(record, reg, prefix+v.Name)...)
			}
		}
		if len(notes) > 0 {
			out = append(out, prefix+"notes = "+strings.Join(notes, "; "))
		}
	}
	record := func(f interface{ Value(int) ref.Val }) func(int) *lang.Record {
		return func(i int) *lang.Record { r, _ := f.Value(i).(*lang.Record); return r }
	}
	add("", r.facts.Point().Vars, record(r.facts), r.facts.Notes)
	for s := range r.facts.Point().Scopes {
		scope := &r.facts.Point().Scopes[s]
		for _, item := range r.facts.ByScope()[s] {
			add(scope.Name+"."+item.Label+".", scope.Vars, record(item), item.Notes)
		}
	}
	return out
}

// recordLines lists the fields of a record that are set, as "path = value".
func recordLines(r *lang.Record, reg *registry.Registry, path string) []string {
	var out []string
	for i, f := range r.Schema().Fields() {
		switch v := r.At(i).(type) {
		case nil:
		case *lang.Record:
			out = append(out, recordLines(v, reg, path+"."+f.Name)...)
		default:
			out = append(out, path+"."+f.Name+" = "+reg.Format(f.Type, v))
		}
	}
	return out
}
