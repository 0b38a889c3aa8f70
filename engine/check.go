package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	semver     = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)
	identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	label      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
)

// reservedNames are words that CEL keeps for itself and names that rules, traces and paths give a meaning.
var reservedNames = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "namespace",
	"null", "package", "return", "true", "var", "void", "while",
	"gates", "params", "self", "oldSelf", "when", "default",
}

// checkRuleSet finds the faults of a rule set that need no types: missing keys, names, versions, duplicates.
func (d *decoder) checkRuleSet(n *yaml.Node, s *RuleSet) {
	d.checkVersion(n, s.Version)
	if s.Point.Value == "" {
		d.problem(n, "spec.point is required")
	}
	bodies := 0
	for body, present := range map[string]bool{"validation": len(s.Validations) > 0, "stage": len(s.Stages) > 0, "decision": len(s.Decisions) > 0} {
		if present {
			bodies++
			s.body = body
		}
	}
	if bodies != 1 {
		d.problem(n, "a RuleSet holds exactly one of validations, stages and decisions, with at least one entry")
	}
	if len(s.Variables) > 0 && len(s.Decisions) == 0 {
		d.problem(n, "spec.variables belong to decisions; give a stage its own variables")
	}
	d.checkNames("param", paramName, names(s.Params, func(p Param) Scalar { return p.Name }))
	d.checkVariables(s.Variables)
	d.checkNames("stage", label, names(s.Stages, func(x Stage) Scalar { return x.Name }))
	d.checkNames("decision", label, names(s.Decisions, func(x Decision) Scalar { return x.Name }))
	d.checkNames("validation", label, names(s.Validations, func(v Validation) Scalar { return v.Name }))
	for i := range s.Stages {
		d.checkStage(&s.Stages[i])
	}
	if len(s.At) > 0 && len(s.Validations) == 0 {
		d.ps.at(s.At[0], d.subject, "spec.at belongs to validations")
	}
	for i := range s.Validations {
		s.Validations[i].At = d.placesBelow(s.At, s.Validations[i].At)
		d.checkValidation(s.Validations[i])
	}
	s.reads = s.readsParams()
}

func (d *decoder) checkStage(s *Stage) {
	d.checkVariables(s.Variables)
	d.checkNames("rule", label, names(s.Rules, func(r Rule) Scalar { return r.Name }))
	d.checkOneOf("onError", s.OnError, OnErrorKeep, OnErrorSkipStage)
	if len(s.Rules) == 0 {
		d.ps.at(s.Name, d.subject, fmt.Sprintf("stage %s has no rules", s.Name.Value))
	}
	for i := range s.Rules {
		d.checkRule(&s.Rules[i])
	}
}

func (d *decoder) checkRule(r *Rule) {
	if len(r.Set) == 0 && len(r.Unset) == 0 && r.Note.IsZero() {
		d.ps.at(r.Name, d.subject, fmt.Sprintf("rule %s does nothing: give it set, unset or note", r.Name.Value))
	}
}

func (d *decoder) checkValidation(v Validation) {
	if v.Expression.IsZero() {
		d.ps.at(v.Name, d.subject, fmt.Sprintf("validation %s has no expression", v.Name.Value))
	}
	if v.Message.IsZero() && v.MessageExpression.IsZero() {
		d.ps.at(v.Name, d.subject, fmt.Sprintf("validation %s needs a message that tells the user what to do", v.Name.Value))
	}
	for _, at := range v.At {
		if strings.HasPrefix(at.Value, ".") {
			d.ps.at(at, d.subject, fmt.Sprintf("at %q begins with a dot, and there is no spec.at that it could be below; write the whole path", at.Value))
		}
	}
	for _, e := range v.Enforce {
		d.checkOneOf("enforce", e, EnforceSchema, EnforceAdmission)
	}
	d.checkOneOf("severity", v.Severity, SeverityDeny, SeverityWarn)
	d.checkOneOf("reason", v.Reason, Reasons...)
	if !v.EnforcedAt(EnforceSchema) {
		return
	}
	switch {
	case v.Severity.Value == SeverityWarn:
		d.ps.at(v.Severity, d.subject, fmt.Sprintf("validation %s: rules of a schema refuse; enforce a warning at %s only", v.Name.Value, EnforceAdmission))
	case v.Message.IsZero():
		d.ps.at(v.Name, d.subject, fmt.Sprintf("validation %s needs a message beside messageExpression: the schema tells it when the expression fails", v.Name.Value))
	}
}

// checkOneOf reports a word that is given and is none of those known.
func (d *decoder) checkOneOf(key string, given Scalar, known ...string) {
	if !given.IsZero() && !slices.Contains(known, given.Value) {
		d.ps.at(given, d.subject, fmt.Sprintf("%s %q is not known; use %s", key, given.Value, strings.Join(known, ", ")))
	}
}

func (d *decoder) checkVersion(n *yaml.Node, v Scalar) {
	if v.IsZero() {
		d.problem(n, "spec.version is required, e.g. 1.0.0")
		return
	}
	if !semver.MatchString(v.Value) {
		d.ps.at(v, d.subject, fmt.Sprintf("version %q is not a semantic version such as 1.0.0", v.Value))
	}
}

func (d *decoder) checkVariables(vs []Variable) {
	if len(vs) > maxVariables {
		d.ps.at(vs[maxVariables].Name, d.subject, fmt.Sprintf("there are %d variables; at most %d are allowed: split the stage or table", len(vs), maxVariables))
	}
	d.checkNames("variable", identifier, names(vs, func(v Variable) Scalar { return v.Name }))
}

// checkNames reports missing, malformed and repeated names.
func (d *decoder) checkNames(what string, form *regexp.Regexp, list []Scalar) {
	seen := map[string]bool{}
	for _, n := range list {
		switch {
		case n.Value == "":
			d.ps.at(n, d.subject, fmt.Sprintf("a %s has no name", what))
		case slices.Contains(reservedNames, n.Value):
			d.ps.at(n, d.subject, fmt.Sprintf("the %s name %q is reserved; choose another", what, n.Value))
		case !form.MatchString(n.Value):
			d.ps.at(n, d.subject, fmt.Sprintf("%s name %q must match %s", what, n.Value, form))
		case seen[n.Value]:
			d.ps.at(n, d.subject, fmt.Sprintf("%s %q stands twice", what, n.Value))
		}
		seen[n.Value] = true
	}
}

func names[T any](list []T, name func(T) Scalar) []Scalar {
	out := make([]Scalar, 0, len(list))
	for _, one := range list {
		out = append(out, name(one))
	}
	return out
}
