package document

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/celvpa/celvpa/engine/lang"
	"github.com/celvpa/celvpa/engine/source"
)

var (
	semver     = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)
	identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	label      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	kindName   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
)

// reservedNames are CEL's keywords, and names with a meaning in rules, traces and paths.
var reservedNames = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "namespace",
	"null", "package", "return", "true", "var", "void", "while",
	"gates", "params", "self", "oldSelf", "when", "default",
}

// checkRuleSet reports faults that need no types: missing keys, names, versions, duplicates.
func (d *Decoder) checkRuleSet(n *yaml.Node, s *RuleSet) {
	d.checkVersion(n, s.Version)
	if s.Point.Value == "" {
		d.Problem(n, "spec.point is required")
	}
	bodies := 0
	for body, present := range map[string]bool{"validation": len(s.Validations) > 0, "stage": len(s.Stages) > 0, "decision": len(s.Decisions) > 0} {
		if present {
			bodies++
			s.Body = body
		}
	}
	if bodies != 1 {
		d.Problem(n, "a RuleSet holds exactly one of validations, stages and decisions, with at least one entry")
	}
	if len(s.Variables) > 0 && len(s.Decisions) == 0 {
		d.Problem(n, "spec.variables belong to decisions; give a stage its own variables")
	}
	d.checkNames("param", paramName, names(s.Params, func(p Param) source.Scalar { return p.Name }))
	d.checkVariables(s.Variables)
	d.checkNames("stage", label, names(s.Stages, func(x Stage) source.Scalar { return x.Name }))
	d.checkNames("decision", label, names(s.Decisions, func(x Decision) source.Scalar { return x.Name }))
	d.checkNames("validation", label, names(s.Validations, func(v Validation) source.Scalar { return v.Name }))
	for i := range s.Stages {
		d.checkStage(&s.Stages[i])
	}
	if len(s.At) > 0 && len(s.Validations) == 0 {
		d.Problems.At(s.At[0], d.Subject, "spec.at belongs to validations")
	}
	for i := range s.Validations {
		s.Validations[i].At = d.placesBelow(s.At, s.Validations[i].At)
		d.checkValidation(s.Validations[i])
	}
	s.Reads, s.Calls = s.ReadsParams(), s.CallsOf()
}

func (d *Decoder) checkStage(s *Stage) {
	d.checkVariables(s.Variables)
	d.checkNames("rule", label, names(s.Rules, func(r Rule) source.Scalar { return r.Name }))
	d.checkOneOf("onError", s.OnError, OnErrorKeep, OnErrorSkipStage)
	switch solves := !s.Solve.IsZero(); {
	case !solves && len(s.Rules) == 0:
		d.Problems.At(s.Name, d.Subject, fmt.Sprintf("stage %s has no rules", s.Name.Value))
	case solves && (len(s.Rules) > 0 || len(s.Each) > 0 || len(s.Variables) > 0 || !s.OnError.IsZero()):
		d.Problems.At(s.Solve, d.Subject, fmt.Sprintf("stage %s solves: it takes when, and neither each, variables, onError nor rules", s.Name.Value))
	}
	for i := range s.Rules {
		d.checkRule(&s.Rules[i])
	}
}

func (d *Decoder) checkRule(r *Rule) {
	if len(r.Set) == 0 && len(r.Unset) == 0 && r.Note.IsZero() {
		d.Problems.At(r.Name, d.Subject, fmt.Sprintf("rule %s does nothing: give it set, unset or note", r.Name.Value))
	}
}

func (d *Decoder) checkValidation(v Validation) {
	if v.Expression.IsZero() {
		d.Problems.At(v.Name, d.Subject, fmt.Sprintf("validation %s has no expression", v.Name.Value))
	}
	if v.Message.IsZero() && v.MessageExpression.IsZero() {
		d.Problems.At(v.Name, d.Subject, fmt.Sprintf("validation %s needs a message that tells the user what to do", v.Name.Value))
	}
	for _, at := range v.At {
		if strings.HasPrefix(at.Value, ".") {
			d.Problems.At(at, d.Subject, fmt.Sprintf("at %q begins with a dot, and there is no spec.at that it could be below; write the whole path", at.Value))
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
		d.Problems.At(v.Severity, d.Subject, fmt.Sprintf("validation %s: rules of a schema refuse; enforce a warning at %s only", v.Name.Value, EnforceAdmission))
	case v.Message.IsZero():
		d.Problems.At(v.Name, d.Subject, fmt.Sprintf("validation %s needs a message beside messageExpression: the schema shows it when the expression fails", v.Name.Value))
	}
}

// checkOneOf reports an unknown word; an absent one is fine.
func (d *Decoder) checkOneOf(key string, given source.Scalar, known ...string) {
	if !given.IsZero() && !slices.Contains(known, given.Value) {
		d.Problems.At(given, d.Subject, fmt.Sprintf("%s %q is not known; use %s", key, given.Value, strings.Join(known, ", ")))
	}
}

func (d *Decoder) checkVersion(n *yaml.Node, v source.Scalar) {
	if v.IsZero() {
		d.Problem(n, "spec.version is required, e.g. 1.0.0")
		return
	}
	if !semver.MatchString(v.Value) {
		d.Problems.At(v, d.Subject, fmt.Sprintf("version %q is not a semantic version such as 1.0.0", v.Value))
	}
}

func (d *Decoder) checkVariables(vs []Variable) {
	if len(vs) > lang.MaxVariables {
		d.Problems.At(vs[lang.MaxVariables].Name, d.Subject, fmt.Sprintf("there are %d variables; at most %d are allowed: split the stage or table", len(vs), lang.MaxVariables))
	}
	d.checkNames("variable", identifier, names(vs, func(v Variable) source.Scalar { return v.Name }))
}

// checkNames reports missing, malformed and repeated names.
func (d *Decoder) checkNames(what string, form *regexp.Regexp, list []source.Scalar) {
	seen := map[string]bool{}
	for _, n := range list {
		switch {
		case n.Value == "" && n.Pos == source.Position{}: // metadata.name, whose lack is reported with the document
		case n.Value == "":
			d.Problems.At(n, d.Subject, fmt.Sprintf("a %s has no name", what))
		case slices.Contains(reservedNames, n.Value):
			d.Problems.At(n, d.Subject, fmt.Sprintf("the %s name %q is reserved; choose another", what, n.Value))
		case !form.MatchString(n.Value):
			d.Problems.At(n, d.Subject, fmt.Sprintf("%s name %q must match %s", what, n.Value, form))
		case seen[n.Value]:
			d.Problems.At(n, d.Subject, fmt.Sprintf("%s %q stands twice", what, n.Value))
		}
		seen[n.Value] = true
	}
}

func names[T any](list []T, name func(T) source.Scalar) []source.Scalar {
	out := make([]source.Scalar, 0, len(list))
	for _, item := range list {
		out = append(out, name(item))
	}
	return out
}
