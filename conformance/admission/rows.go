// Package admission provides objects for tests of VPA validation, from the test tables and at
// random, and judges them by the generated CRD like an API server, without a server.
package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
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
	kjson "k8s.io/apimachinery/pkg/util/json" // keeps integers, like API servers
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"

	"github.com/celvpa/celvpa/conformance/rules"
	"github.com/celvpa/celvpa/controllers/facts"
	"github.com/celvpa/celvpa/crds/schema"
)

// Row is a row of a test table of vpa.validate.
type Row struct {
	Table, Name string
	Object      map[string]any
	Old         map[string]any // the replaced object; nil = new
	Gates       map[string]bool
	Params      map[string]string
	Violations  []Violation // expected by the table; some rows give only part of each
}

// Violation is an expected violation; empty fields are not checked.
type Violation struct {
	Rule, Field, Severity, Message string
}

// String returns the row's test name.
func (r Row) String() string { return r.Table + "/" + r.Name }

// Rows returns the rows of all tables of vpa.validate.
func Rows() ([]Row, error) {
	files, err := fs.Glob(rules.FS, "*.yaml")
	if err != nil {
		return nil, err
	}
	var out []Row
	for _, file := range files {
		data, err := rules.FS.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := rowsOf(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no table is about %s", facts.VPAValidate)
	}
	return out, nil
}

// tableFile is the part of a RuleTest that matters here.
type tableFile struct {
	Metadata struct{ Name string }
	Spec     struct {
		Point         string
		Gates, Params map[string]any
		Given         map[string]any
		Rows          []struct {
			Name          string
			Gates, Params map[string]any
			Given         map[string]any
			Expect        struct{ Violations []Violation }
		}
	}
}

func rowsOf(data []byte) (out []Row, err error) {
	var table tableFile
	if err := yaml.Unmarshal(data, &table); err != nil || table.Spec.Point != facts.VPAValidate {
		return nil, err
	}
	for _, row := range table.Spec.Rows {
		given := laid(table.Spec.Given, row.Given)
		parsed := Row{Table: table.Metadata.Name, Name: row.Name, Gates: map[string]bool{}, Params: map[string]string{}, Violations: row.Expect.Violations}
		if parsed.Object, err = plain(given["object"]); err != nil {
			return nil, fmt.Errorf("row %q: %w", row.Name, err)
		}
		if parsed.Old, err = plain(given["oldObject"]); err != nil {
			return nil, fmt.Errorf("row %q: %w", row.Name, err)
		}
		for _, settings := range []map[string]any{table.Spec.Gates, row.Gates} {
			for name, on := range settings {
				if parsed.Gates[name], err = strconv.ParseBool(fmt.Sprint(on)); err != nil {
					return nil, fmt.Errorf("row %q: gate %s: %w", row.Name, name, err)
				}
			}
		}
		for _, settings := range []map[string]any{table.Spec.Params, row.Params} {
			for name, value := range settings {
				parsed.Params[name] = fmt.Sprint(value)
			}
		}
		out = append(out, parsed)
	}
	return out, nil
}

// laid merges mappings key by key; over wins for anything else.
func laid(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range over {
		below, isMap := out[key].(map[string]any)
		if above, both := value.(map[string]any); isMap && both {
			value = laid(below, above)
		}
		out[key] = value
	}
	return out
}

// plain converts a value to JSON types; nil stays nil.
func plain(value any) (out map[string]any, err error) {
	if value == nil {
		return nil, nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return out, kjson.Unmarshal(data, &out)
}

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
