package admission

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"

	"github.com/celvpa/celvpa/crds/schema"
)

// APIServer decodes, defaults, prunes and validates objects by a CRD with an API server's code, but
// without a server. The steps follow the custom resource strategy (apiextensions-apiserver,
// pkg/registry/customresource), which needs a store.
type APIServer struct {
	root   *structural.Structural
	schema validation.SchemaValidator
	rules  *schemacel.Validator
}

// NewAPIServer reads the CRD's first version.
func NewAPIServer(crd *apiextensionsv1.CustomResourceDefinition) (*APIServer, error) {
	root, props, err := schema.Structural(crd.Spec.Versions[0].Schema)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	return &APIServer{root: root, schema: validator, rules: schemacel.NewValidator(root, true, celconfig.PerCallLimit)}, nil
}

// Decoded returns an object as the server reads it and webhooks see it.
func (s *APIServer) Decoded(object map[string]any) (map[string]any, error) {
	if object == nil {
		return nil, nil
	}
	out := runtime.DeepCopyJSON(object)
	meta, found, err := objectmeta.GetObjectMeta(out, true)
	if err != nil {
		return nil, err
	}
	if found {
		if err := objectmeta.SetObjectMeta(out, meta); err != nil {
			return nil, err
		}
	}
	pruning.Prune(out, s.root, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(out, s.root)
	defaulting.Default(out, s.root)
	return out, nil
}

// Verdict is the server's judgement of an object.
type Verdict struct {
	// Structure lists schema errors (types, enumerations, bounds, patterns) and metadata errors.
	Structure field.ErrorList
	// Refused and Warned list violated schema rules as rule@field; unchanged violations only warn.
	Refused, Warned []string
}

// Judge judges a new object or an update. Pass objects as returned by Decoded.
func (s *APIServer) Judge(object, old map[string]any) Verdict {
	recorder := &warnings{}
	ctx := warning.WithWarningRecorder(context.Background(), recorder)
	now := runtime.DeepCopyJSON(object)
	delete(now, "status") // a subresource
	errs := metadataErrors(now)
	var ratchets []schemacel.Option
	var before any
	if old == nil {
		errs = append(errs, validation.ValidateCustomResource(nil, now, s.schema)...)
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.root, now)...)
	} else {
		previous := runtime.DeepCopyJSON(old)
		delete(previous, "status")
		before = previous
		same := common.NewCorrelatedObject(now, previous, &model.Structural{Structural: s.root})
		ratchets = append(ratchets, schemacel.WithRatcheting(same))
		errs = append(errs, validation.ValidateCustomResourceUpdate(nil, now, previous, s.schema, validation.WithRatcheting(same))...)
		if len(listtype.ValidateListSetsAndMaps(nil, s.root, previous)) == 0 {
			errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.root, now)...)
		}
	}
	if !slices.ContainsFunc(errs, blocks) {
		found, _ := s.rules.Validate(ctx, nil, s.root, now, before, celconfig.RuntimeCELCostBudget, ratchets...)
		errs = append(errs, found...)
	}
	out := Verdict{}
	for _, err := range errs {
		if rule := RuleOf(err.Detail); rule != "" {
			out.Refused = append(out.Refused, rule+"@"+err.Field)
		} else {
			out.Structure = append(out.Structure, err)
		}
	}
	for _, text := range *recorder {
		where, _, _ := strings.Cut(text, ": ")
		out.Warned = append(out.Warned, RuleOf(text)+"@"+where)
	}
	slices.Sort(out.Refused)
	slices.Sort(out.Warned)
	return out
}

// blocks reports whether the error keeps an API server from evaluating rules.
func blocks(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}

func metadataErrors(object map[string]any) field.ErrorList {
	meta, found, err := objectmeta.GetObjectMeta(object, false)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata"), "", err.Error())}
	}
	if !found {
		meta = &metav1.ObjectMeta{}
	}
	meta.Namespace = metav1.NamespaceDefault // from the request
	return apivalidation.ValidateObjectMeta(meta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

// warnings implements warning.Recorder.
type warnings []string

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

var rulePattern = regexp.MustCompile(`\(rule ([^()]+)\)$`)

// RuleOf returns the rule that ends a message, or "".
func RuleOf(message string) string {
	if found := rulePattern.FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return ""
}

// String lists all findings.
func (v Verdict) String() string {
	return fmt.Sprintf("structure %v, refused %v, warned %v", v.Structure.ToAggregate(), v.Refused, v.Warned)
}
