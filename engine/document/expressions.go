package document

import (
	"regexp"
	"strings"

	"github.com/celvpa/celvpa/engine/source"
)

// ReadsParams returns the names of the parameters that expressions mention.
func (s *RuleSet) ReadsParams() map[string]bool {
	if s.Reads != nil {
		return s.Reads
	}
	out := map[string]bool{}
	s.eachExpression(func(e *source.Scalar) { noteParams(out, e.Value) })
	return out
}

func noteParams(to map[string]bool, expression string) {
	for _, m := range readsParam.FindAllStringSubmatch(expression, -1) {
		to[m[1]+m[2]+m[3]] = true
	}
}

// CallsOf returns the names of the functions, methods and macros that expressions call.
func (s *RuleSet) CallsOf() map[string]bool {
	if s.Calls != nil {
		return s.Calls
	}
	out := map[string]bool{}
	s.eachExpression(func(e *source.Scalar) { noteCalls(out, e.Value) })
	return out
}

func noteCalls(to map[string]bool, expression string) {
	for _, m := range calls.FindAllStringSubmatch(expression, -1) {
		to[m[1]] = true
	}
}

var (
	readsParam = regexp.MustCompile(`\bparams\s*\.\s*\??\s*([a-zA-Z_]\w*)|\bparams\s*\[\s*\?\s*["'](\w+)|["'](\w+)["']\s*in\s+params\b`)
	calls      = regexp.MustCompile(`\b([a-zA-Z_]\w*)\s*\(`)
)

// Mentions reports whether an expression contains a text.
func (s *RuleSet) Mentions(text string) (found bool) {
	s.eachExpression(func(e *source.Scalar) { found = found || strings.Contains(e.Value, text) })
	return found
}

// Only returns a rule set with one entry, and of its rules one; -1 = all.
func (s *RuleSet) Only(entry, rule int) *RuleSet {
	if entry < 0 {
		return s
	}
	only := &RuleSet{}
	switch {
	case len(s.Stages) > 0:
		only.Stages = []Stage{s.Stages[entry]}
		if rule >= 0 {
			only.Stages = []Stage{{Rules: s.Stages[entry].Rules[rule : rule+1]}}
		}
	case len(s.Decisions) > 0:
		only.Decisions = s.Decisions[entry : entry+1]
	case len(s.Validations) > 0:
		only.Validations = s.Validations[entry : entry+1]
	}
	return only
}

// eachExpression visits all CEL of a rule set.
func (s *RuleSet) eachExpression(visit func(*source.Scalar)) {
	variables := func(list []Variable) {
		for i := range list {
			visit(&list[i].Expression)
		}
	}
	variables(s.Variables)
	for i := range s.Stages {
		st := &s.Stages[i]
		variables(st.Variables)
		visit(&st.When)
		for j := range st.Rules {
			r := &st.Rules[j]
			visit(&r.When)
			for k := range r.Set {
				visit(&r.Set[k].Expression)
			}
		}
	}
	for i := range s.Decisions {
		d := &s.Decisions[i]
		visit(&d.When)
		visit(&d.ReasonExpression)
		visit(&d.UntilExpression)
	}
	for i := range s.Validations {
		v := &s.Validations[i]
		visit(&v.When)
		visit(&v.Expression)
		visit(&v.MessageExpression)
	}
}
