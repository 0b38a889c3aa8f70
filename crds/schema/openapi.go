package schema

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
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
	"k8s.io/apiserver/pkg/cel/common"
)

// Fault is a value that an API server refuses, or a field that it drops, by the CRD's schema.
type Fault struct {
	Field   string           // e.g. spec.updatePolicy.updateMode
	Reason  metav1.CauseType // FieldValueInvalid and its siblings
	Message string
	// Unknown: not in the schema. API servers drop the field; kubectl asks them to refuse it.
	Unknown bool
}

// Check returns what an API server finds wrong with metadata and schema (types, enums, bounds,
// patterns, required fields), and the fields it drops. With old it is an update: unchanged faults
// pass, as API servers from 1.33 allow. It ignores x-kubernetes-validations and the status, which
// object writes do not touch. Neither object is changed.
func (o *Objects) Check(object, old map[string]any) []Fault {
	now, unknown, err := o.stored(object)
	if err != nil {
		return []Fault{{Field: "metadata", Reason: metav1.CauseTypeFieldValueInvalid, Message: err.Error()}}
	}
	errs := metadataErrors(now)
	if before, _, err := o.stored(old); old == nil || err != nil {
		errs = append(errs, validation.ValidateCustomResource(nil, now, o.validator)...)
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, o.root, now)...)
	} else {
		correlated := common.NewCorrelatedObject(now, before, &model.Structural{Structural: o.root})
		errs = append(errs, validation.ValidateCustomResourceUpdate(nil, now, before, o.validator, validation.WithRatcheting(correlated))...)
		if len(listtype.ValidateListSetsAndMaps(nil, o.root, before)) == 0 {
			errs = append(errs, listtype.ValidateListSetsAndMaps(nil, o.root, now)...)
		}
	}
	out := faultsOf(errs, now)
	for _, path := range unknown {
		out = append(out, Fault{
			Field: path, Reason: metav1.CauseTypeFieldValueNotSupported, Unknown: true,
			Message: "unknown field: kubectl refuses it, and an API server drops it without a word; check how it is spelled and where it stands",
		})
	}
	return out
}

// metadataErrors checks names, labels and annotations. The request supplies the namespace.
func metadataErrors(object map[string]any) field.ErrorList {
	meta, _, err := objectmeta.GetObjectMeta(object, false)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata"), "", err.Error())}
	}
	if meta == nil {
		meta = &metav1.ObjectMeta{}
	}
	if meta.Namespace == "" {
		meta.Namespace = metav1.NamespaceDefault
	}
	if base := meta.GenerateName; meta.Name == "" && base != "" { // an API server makes a name of it before it checks that
		meta.Name = base[:min(len(base), generatedFrom)] + "00000"
	}
	return apivalidation.ValidateObjectMeta(meta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

// generatedFrom is how much of generateName an API server makes a name from.
const generatedFrom = 58

// faultsOf sorts errors about an object by field and drops noise: for a wrong type, the validator also
// reports an enum mismatch, and no matching alternative without naming a field.
func faultsOf(errs field.ErrorList, object map[string]any) (out []Fault) {
	mistyped := map[string]bool{}
	for _, err := range errs {
		describeNumber(err, object)
		mistyped[err.Field] = mistyped[err.Field] || err.Type == field.ErrorTypeTypeInvalid
	}
	seen := map[string]bool{}
	for _, err := range errs {
		switch {
		case err.Field == noField && len(mistyped) > 1:
			continue
		case mistyped[err.Field] && (err.Type != field.ErrorTypeTypeInvalid || seen[err.Field]):
			continue
		}
		seen[err.Field] = true
		fault := Fault{Field: err.Field, Reason: metav1.CauseType(err.Type), Message: err.ErrorBody()}
		switch {
		case err.Field == noField:
			fault.Field = ""
		case err.Type == field.ErrorTypeTypeInvalid && strings.Contains(err.Detail, "must be of type integer,string"):
			fault.Message = "this is not a quantity; write fractions in quotes, or like 500m"
		case err.Type == field.ErrorTypeTypeInvalid && strings.Contains(err.Detail, "must be of type string"):
			fault.Message += "; write the value in quotes"
		case strings.Contains(err.Detail, quantityPattern):
			fault.Message = fmt.Sprintf("Invalid value: %q: this is not a quantity; write it like 500m, 2 or 1Gi", fmt.Sprint(err.BadValue))
		}
		out = append(out, fault)
	}
	slices.SortStableFunc(out, func(a, b Fault) int { return strings.Compare(a.Field, b.Field) })
	return out
}

// quantityPattern occurs only in the generated pattern of quantities.
const quantityPattern = `([KMGTPE]i)|[numkMGTPE]|`

// noField marks an error without a field.
var noField = (*field.Path)(nil).String()

// Decoded returns an object as webhooks see it: without unknown fields, nulls and status.
func (o *Objects) Decoded(object map[string]any) (map[string]any, error) {
	out, _, err := o.stored(object)
	return out, err
}

// stored returns a copy as an API server decodes it: without status and unknown fields, which it
// lists. An error means unreadable metadata, which ends the request.
func (o *Objects) stored(object map[string]any) (out map[string]any, unknown []string, err error) {
	if object == nil {
		return nil, nil, nil
	}
	out = runtime.DeepCopyJSON(object)
	_, _, unknown, err = objectmeta.GetObjectMetaWithOptions(out, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, err
	}
	unknown = append(unknown, pruning.PruneWithOptions(out, o.root, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(out, o.root)
	defaulting.Default(out, o.root)
	delete(out, "status")
	slices.Sort(unknown)
	return out, slices.Compact(unknown), nil
}

// outOfRange matches the detail of an error about a number beyond its type. It is the one error of a value whose field is in the
// text only.
var outOfRange = regexp.MustCompile(`^Checked value must be of type (\w+) (?:with format (\w+)|\(default format\)) in (.+)$`)

// noWholeNumber matches the detail of a type error of an integer with a format: a fraction, a number beyond 2^53, or true and false.
var noWholeNumber = regexp.MustCompile(` must be of type (int32|int64): "`)

// describeNumber gives an error about a number of an object its field and its value, and says what the number must be.
func describeNumber(err *field.Error, object map[string]any) {
	var kind, format string
	if m := outOfRange.FindStringSubmatch(err.Detail); m != nil && err.Field == noField {
		kind, format, err.Field = m[1], m[2], strings.TrimPrefix(m[3], ".")
	} else if m := noWholeNumber.FindStringSubmatch(err.Detail); m != nil && err.Type == field.ErrorTypeTypeInvalid {
		kind, format = "integer", m[1]
	} else {
		return
	}
	switch value := valueAt(object, err.Field).(type) {
	case int64, float64, bool:
		err.BadValue = value
	case map[string]any:
		err.BadValue = "object"
	}
	switch {
	case kind != "integer":
		err.Detail = fmt.Sprintf("must be a number that fits %s", format)
	case format == "int32":
		err.Detail = fmt.Sprintf("must be a whole number from %d to %d", math.MinInt32, math.MaxInt32)
	default:
		err.Detail = fmt.Sprintf("must be a whole number from %d to %d", int64(math.MinInt64), int64(math.MaxInt64))
	}
}

// valueAt returns what an object has at a path such as spec.recommenders[0].name; nil if there is nothing.
func valueAt(object any, path string) any {
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		switch above := object.(type) {
		case map[string]any:
			object = above[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(above) {
				return nil
			}
			object = above[i]
		default:
			return nil
		}
	}
	return object
}
