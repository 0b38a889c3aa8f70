package emit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/celvpa/celvpa/crds/schema"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
)

// Policy is a ValidatingAdmissionPolicy and its binding.
type Policy struct {
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Names of the policies.
const (
	DenyPolicy = "celvpa-validate"
	WarnPolicy = "celvpa-warn"
)

// Policies returns the rules that a schema cannot hold as admission policies: one denies, the other
// warns. gates are all feature gates; beside names the facts beside the object. left names the
// rules that need the webhook, because they calculate with quantities or read such facts.
func Policies(rules []engine.ValidationInfo, gates map[string]bool, beside []string) (policies []Policy, left []string, err error) {
	deny := newPolicy(DenyPolicy, admissionregistrationv1.Deny, gates)
	warn := newPolicy(WarnPolicy, admissionregistrationv1.Warn, gates)
	for _, v := range rules {
		if v.Validation.EnforcedAt(document.EnforceSchema) {
			continue
		}
		if !known(v, beside) {
			if !slices.Contains(left, v.Rule) { // a rule with an axis repeats for each value
				left = append(left, v.Rule)
			}
			continue
		}
		to := deny
		if v.Validation.Severity.Value == document.SeverityWarn {
			to = warn
		}
		for _, place := range v.Validation.Places() {
			at := place.Value
			expression, err := policyExpression(v, at)
			if err != nil {
				return nil, nil, fmt.Errorf("rule %s: %w", v.Rule, err)
			}
			to.Policy.Spec.Validations = append(to.Policy.Spec.Validations, admissionregistrationv1.Validation{
				Expression: expression,
				Message:    named(at+v.Validation.FieldPath.Value+": "+v.Validation.Message.Value, v.Rule),
				Reason:     ptr.To(metav1.StatusReasonInvalid),
			})
		}
	}
	for _, p := range []*Policy{deny, warn} {
		if len(p.Policy.Spec.Validations) > 0 {
			policies = append(policies, *p)
		}
	}
	return policies, left, nil
}

// known reports whether an API server can evaluate the rule.
func known(v engine.ValidationInfo, beside []string) bool {
	own := func(called string) bool {
		return slices.ContainsFunc(schema.Functions, func(f schema.Function) bool { return f.Name == called })
	}
	other := func(name string) bool { return name == "params" || slices.Contains(beside, name) }
	return !slices.ContainsFunc(v.Calls, own) && !slices.ContainsFunc(v.Reads, other)
}

func newPolicy(name string, action admissionregistrationv1.ValidationAction, gates map[string]bool) *Policy {
	var list []string
	for gate, on := range gates {
		list = append(list, fmt.Sprintf("'%s': %v", gate, on))
	}
	slices.Sort(list)
	rule := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{vpav1.GroupVersion.Group}, APIVersions: []string{vpav1.GroupVersion.Version}, Resources: []string{"verticalpodautoscalers"},
		},
	}}
	return &Policy{
		Policy: &admissionregistrationv1.ValidatingAdmissionPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy:    ptr.To(admissionregistrationv1.Fail),
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule}},
				Variables:        []admissionregistrationv1.Variable{{Name: "gates", Expression: "{" + strings.Join(list, ", ") + "}"}},
			},
		},
		Binding: &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{action},
			},
		},
	}
}

// oldObject is an optional: policies see null for new objects. It cannot be a policy variable,
// because CEL does not resolve fields of an optional that is itself a field.
const oldObject = "optional.ofNonZeroValue(oldObject)"

// policyExpression rewrites a validation for a policy, where object is the root and self is inside
// it. Unchanged values pass, unless the rule itself reads the old object.
func policyExpression(v engine.ValidationInfo, at string) (string, error) {
	path := strings.FieldsFunc(strings.ReplaceAll(at, "[*]", ".[*]"), func(r rune) bool { return r == '.' })
	stable := path
	if i := slices.Index(path, "[*]"); i >= 0 {
		stable = path[:i]
	}
	below := func(root string) string {
		for _, name := range stable {
			root += ".?" + name
		}
		return root
	}
	expression, err := renamed(condition(v.Validation), map[string]string{
		"gates": "variables.gates", "oldObject": oldObject, "oldSelf": below(oldObject),
	})
	if err != nil {
		return "", err
	}
	expression = "(" + everywhere(path, "object", expression) + ")"
	if !slices.Contains(v.Reads, "oldSelf") && !slices.Contains(v.Reads, "oldObject") {
		now := below("object")
		if len(stable) == 0 {
			now = "optional.of(object)"
		}
		expression = below(oldObject) + " == " + now + " || " + expression
	}
	return expression, nil
}

// everywhere requires a condition on self at every place that a path selects.
func everywhere(path []string, from, condition string) string {
	if len(path) == 0 {
		return fmt.Sprintf("[%s].all(self, %s)", from, condition)
	}
	if path[0] == "[*]" {
		if len(path) == 1 {
			return fmt.Sprintf("%s.all(self, %s)", from, condition)
		}
		entry := fmt.Sprintf("entry%d", strings.Count(from, "entry")+1)
		return fmt.Sprintf("%s.all(%s, %s)", from, entry, everywhere(path[1:], entry, condition))
	}
	field := from + "." + path[0]
	return fmt.Sprintf("!has(%s) || %s", field, everywhere(path[1:], field, condition))
}

// renamed replaces variables and preserves all other text.
func renamed(expression string, names map[string]string) (string, error) {
	env, err := cel.NewEnv(cel.OptionalTypes())
	if err != nil {
		return "", err
	}
	ast, issues := env.Parse(expression)
	if issues.Err() != nil {
		return "", issues.Err()
	}
	type place struct {
		offset int32
		name   string
	}
	var found []place
	native := ast.NativeRep()
	visit := func(e celast.Expr) {
		if e.Kind() != celast.IdentKind || names[e.AsIdent()] == "" {
			return
		}
		if at, ok := native.SourceInfo().GetOffsetRange(e.ID()); ok && !slices.Contains(found, place{at.Start, e.AsIdent()}) {
			found = append(found, place{at.Start, e.AsIdent()})
		}
	}
	celast.PreOrderVisit(native.Expr(), celast.NewExprVisitor(visit))
	slices.SortFunc(found, func(a, b place) int { return int(b.offset - a.offset) }) // from the end, so that offsets stay valid
	text := []rune(expression)
	for _, p := range found {
		end := int(p.offset) + len([]rune(p.name))
		text = slices.Concat(text[:p.offset], []rune(names[p.name]), text[end:])
	}
	return string(text), nil
}
