package emit

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
)

// Refusal is a reason why an API server would refuse a CRD, e.g. a validation that costs too much.
type Refusal struct {
	CRD     string
	Rule    string // set/validation; empty = not about a rule
	At      string // place of the rule, or a path in the CRD
	Message string
}

// Error implements error.
func (r *Refusal) Error() string {
	about := r.At
	if r.Rule != "" {
		about = "rule " + r.Rule + " at " + r.At
	}
	return fmt.Sprintf("an API server would refuse CRD %s: %s: %s", r.CRD, about, r.Message)
}

// Check lists the reasons why an API server would refuse a CRD.
func Check(crd *apiextensionsv1.CustomResourceDefinition) ([]*Refusal, error) {
	crd = crd.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, &internal, nil); err != nil {
		return nil, fmt.Errorf("CRD %s cannot be converted: %w", crd.Name, err)
	}
	var out []*Refusal
	for _, e := range validation.ValidateCustomResourceDefinition(context.Background(), &internal) {
		refusal := &Refusal{CRD: crd.Name, At: e.Field, Message: e.Detail}
		refusal.find(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
		out = append(out, refusal)
	}
	return out, nil
}

var (
	ruleName = regexp.MustCompile(`\(rule ([^)]+)\)$`)
	rulePath = regexp.MustCompile(`openAPIV3Schema(.*)\.x-kubernetes-validations\[(\d+)\]`)
	ruleStep = regexp.MustCompile(`\.properties\[([^\]]+)\]|\.items|\.additionalProperties`)
)

// find resolves a rule's path in the CRD to its name and its place in objects.
func (r *Refusal) find(schema *apiextensionsv1.JSONSchemaProps) {
	m := rulePath.FindStringSubmatch(r.At)
	if m == nil {
		return
	}
	at := ""
	for _, step := range ruleStep.FindAllStringSubmatch(m[1], -1) {
		switch {
		case step[1] != "":
			field := schema.Properties[step[1]]
			schema, at = &field, at+"."+step[1]
		case schema.Items != nil && schema.Items.Schema != nil:
			schema, at = schema.Items.Schema, at+"[*]"
		case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
			schema, at = schema.AdditionalProperties.Schema, at+"[*]"
		}
	}
	index, err := strconv.Atoi(m[2])
	if err != nil || index >= len(schema.XValidations) {
		return
	}
	if name := ruleName.FindStringSubmatch(schema.XValidations[index].Message); name != nil {
		r.Rule, r.At = name[1], strings.TrimPrefix(at, ".")
	}
}
