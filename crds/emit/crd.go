// Package emit generates what API servers enforce: x-kubernetes-validations in the CRDs, and a
// ValidatingAdmissionPolicy for the rules that a schema cannot hold.
package emit

import (
	"encoding/json"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/crds"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/document"
)

// CRDs returns all CustomResourceDefinitions, by name, with the rules enforced in the schema.
func CRDs(rules []engine.ValidationInfo) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := crds.Definitions()
	if err != nil {
		return nil, err
	}
	for _, crd := range all {
		if crd.Name != crds.VPA {
			continue
		}
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, v := range rules {
			if !v.Validation.EnforcedAt(document.EnforceSchema) {
				continue
			}
			for _, at := range v.Validation.Places() {
				err := crds.Change(schema, at.Value, func(s *apiextensionsv1.JSONSchemaProps) error {
					s.XValidations = append(s.XValidations, schemaRule(v))
					return nil
				})
				if err != nil {
					return nil, fmt.Errorf("rule %s at %q: %w", v.Rule, at.Value, err)
				}
			}
		}
	}
	return all, nil
}

func schemaRule(v engine.ValidationInfo) apiextensionsv1.ValidationRule {
	rule := apiextensionsv1.ValidationRule{
		Rule:      condition(v.Validation),
		Message:   named(v.Validation.Message.Value, v.Rule),
		FieldPath: v.Validation.FieldPath.Value,
	}
	if m := v.Validation.MessageExpression.Value; m != "" {
		rule.MessageExpression = fmt.Sprintf("(%s) + ' (rule %s)'", m, v.Rule)
	}
	// API servers accept only these reasons, and FieldValueDuplicate, which drops the message.
	switch r := apiextensionsv1.FieldValueErrorReason(v.Validation.Reason.Value); r {
	case apiextensionsv1.FieldValueRequired, apiextensionsv1.FieldValueForbidden:
		rule.Reason = &r
	}
	if slices.Contains(v.Reads, "oldSelf") {
		rule.OptionalOldSelf = ptr.To(true)
	}
	return rule
}

func condition(v *document.Validation) string {
	if v.When.IsZero() {
		return v.Expression.Value
	}
	return fmt.Sprintf("!(%s) || (%s)", v.When.Value, v.Expression.Value)
}

// named appends the rule to a message.
func named(message, rule string) string { return fmt.Sprintf("%s (rule %s)", message, rule) }

// YAML renders an object as a manifest, without server-populated fields.
func YAML(object runtime.Object) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, err
	}
	delete(plain, "status")
	if meta, ok := plain["metadata"].(map[string]any); ok && meta["creationTimestamp"] == nil {
		delete(meta, "creationTimestamp")
	}
	return yaml.Marshal(plain)
}
