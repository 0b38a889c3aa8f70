package document

import (
	"regexp"
	"slices"

	"github.com/celvpa/celvpa/engine/source"
)

// ReadsParams are the names of the parameters that expressions of the rule set mention.
func (s *RuleSet) ReadsParams() map[string]bool {
	if s.Reads != nil {
		return s.Reads
	}
	out := map[string]bool{}
	s.eachExpression(func(e source.Scalar) {
		for _, m := range readsParam.FindAllStringSubmatch(e.Value, -1) {
			out[m[1]+m[2]+m[3]] = true
		}
	})
	return out
}

// eachExpression visits what is CEL in a rule set.
func (s *RuleSet) eachExpression(visit func(source.Scalar)) {
	variables := func(list []Variable) {
		for _, v := range list {
			visit(v.Expression)
		}
	}
	variables(s.Variables)
	for _, st := range s.Stages {
		variables(st.Variables)
		visit(st.When)
		for _, r := range st.Rules {
			visit(r.When)
			for _, a := range r.Set {
				visit(a.Expression)
			}
		}
	}
	for _, d := range s.Decisions {
		visit(d.When)
		visit(d.ReasonExpression)
	}
	for _, v := range s.Validations {
		visit(v.When)
		visit(v.Expression)
		visit(v.MessageExpression)
	}
}

// ParamKeyOf is how overlays and hosts call a parameter of a rule set.
func ParamKeyOf(set *RuleSet, p *Param) string { return set.Name.Value + "." + p.Name.Value }

var readsParam = regexp.MustCompile(`\bparams\s*\.\s*\??\s*([a-zA-Z_]\w*)|\bparams\s*\[\s*\?\s*["'](\w+)|["'](\w+)["']\s*in\s+params\b`)

// Entries are the names of a set's stages, decisions or validations.
func (s *RuleSet) Entries() []string {
	var out []string
	for _, x := range s.Stages {
		out = append(out, x.Name.Value)
	}
	for _, x := range s.Decisions {
		out = append(out, x.Name.Value)
	}
	for _, x := range s.Validations {
		out = append(out, x.Name.Value)
	}
	return out
}

// Places are where a validation looks; a scalar without value stands for the whole object.
func (v *Validation) Places() []source.Scalar {
	if len(v.At) == 0 {
		return []source.Scalar{{}}
	}
	return v.At
}

// EnforcedAt reports whether a validation is enforced somewhere: EnforceSchema or EnforceAdmission.
func (v *Validation) EnforcedAt(where string) bool {
	if len(v.Enforce) == 0 {
		return where == EnforceAdmission
	}
	return slices.ContainsFunc(v.Enforce, func(e source.Scalar) bool { return e.Value == where })
}
