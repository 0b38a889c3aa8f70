package v1

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/celvpa/celvpa/crds/quantity"
)

// fitting decodes strictly: all or an error.
type fitting VerticalPodAutoscaler

// Decode refuses type mismatches with a *Misfit. Names are case-sensitive, unknown fields are
// dropped. Use it for submitted objects, never for stored ones.
func Decode(data []byte) (*VerticalPodAutoscaler, error) {
	v := &VerticalPodAutoscaler{}
	err := quantity.Unmarshal(data, (*fitting)(v))
	if err == nil {
		return v, nil
	}
	var parts struct {
		Spec   json.RawMessage `json:"spec"`
		Status json.RawMessage `json:"status"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(data, &parts) != nil {
		return nil, err
	}
	if m := misfit("spec", parts.Spec, &VerticalPodAutoscalerSpec{}); m != nil {
		return nil, m
	}
	if m := misfit("status", parts.Status, &VerticalPodAutoscalerStatus{}); m != nil {
		return nil, m
	}
	return nil, err
}

// Misfit is a value that does not fit its field.
// +k8s:deepcopy-gen=false
type Misfit struct {
	Field string // e.g. spec.resourcePolicy.containerPolicies[0].minAllowed.cpu
	Value string // JSON, truncated; empty = unknown
	Err   error
}

// Error implements error.
func (m *Misfit) Error() string {
	if m.Value == "" {
		return fmt.Sprintf("%s cannot be read: %v", m.Field, m.Err)
	}
	return fmt.Sprintf("%s cannot be read: it is %s: %v", m.Field, m.Value, m.Err)
}

// Unwrap returns the decoder's error.
func (m *Misfit) Unwrap() error { return m.Err }

// Unknown reports unknown and duplicate fields. API servers drop them, misspelled bounds included.
func Unknown(data []byte) []error {
	unknown, err := quantity.UnmarshalStrict(data, &fitting{})
	if err != nil {
		return nil // Decode reports the mismatch
	}
	return unknown
}

// UnmarshalJSON reads as much of a stored object as possible, because one object that does not fit
// the type (upstream's CRD admits some) would fail the whole list. SpecUnreadable and
// StatusUnreadable report the rest; only an unreadable name is an error.
func (v *VerticalPodAutoscaler) UnmarshalJSON(data []byte) error {
	*v = VerticalPodAutoscaler{}
	if quantity.Unmarshal(data, (*fitting)(v)) == nil {
		return nil
	}
	*v = VerticalPodAutoscaler{}
	return v.readParts(data)
}

// Unreadable says what could not be read, or is empty. Do not act on an unreadable object's spec.
func (v *VerticalPodAutoscaler) Unreadable() string {
	switch {
	case v.SpecUnreadable == "":
		return v.StatusUnreadable
	case v.StatusUnreadable == "":
		return v.SpecUnreadable
	}
	return v.SpecUnreadable + "; " + v.StatusUnreadable
}

// readParts reads metadata, spec and status independently.
func (v *VerticalPodAutoscaler) readParts(data []byte) error {
	var parts struct {
		Metadata json.RawMessage `json:"metadata"`
		Spec     json.RawMessage `json:"spec"`
		Status   json.RawMessage `json:"status"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &parts); err != nil {
		return fmt.Errorf("reading a VerticalPodAutoscaler: %w", err)
	}
	readFields(data, map[string]any{"apiVersion": &v.APIVersion, "kind": &v.Kind})
	var unreadable []string
	if m := misfit("metadata", parts.Metadata, &v.ObjectMeta); m != nil {
		unreadable = append(unreadable, m.Error())
		v.ObjectMeta = metav1.ObjectMeta{}
		readFields(parts.Metadata, map[string]any{"name": &v.Name, "namespace": &v.Namespace, "uid": &v.UID, "resourceVersion": &v.ResourceVersion,
			"generation": &v.Generation, "creationTimestamp": &v.CreationTimestamp})
		if v.Name == "" {
			return fmt.Errorf("reading the metadata of a VerticalPodAutoscaler: %w", m)
		}
	}
	if m := misfit("spec", parts.Spec, &v.Spec); m != nil {
		unreadable = append(unreadable, m.Error())
		v.Spec = VerticalPodAutoscalerSpec{}
		// Half a policy may permit what the other half forbids; target and recommender are
		// harmless.
		readFields(parts.Spec, map[string]any{"targetRef": &v.Spec.TargetRef, "recommenders": &v.Spec.Recommenders})
	}
	v.SpecUnreadable = strings.Join(unreadable, "; ")
	if m := misfit("status", parts.Status, &v.Status); m != nil {
		v.StatusUnreadable = m.Error()
		v.Status = VerticalPodAutoscalerStatus{}
		readFields(parts.Status, map[string]any{"recommendation": &v.Status.Recommendation, "conditions": &v.Status.Conditions,
			"observedGeneration": &v.Status.ObservedGeneration})
	}
	return nil
}

func readPart(data []byte, into any) error {
	if len(data) == 0 {
		return nil
	}
	return quantity.Unmarshal(data, into)
}

// readFields leaves unreadable fields unset.
func readFields(data []byte, into map[string]any) {
	var fields map[string]json.RawMessage
	if kjson.UnmarshalCaseSensitivePreserveInts(data, &fields) != nil {
		return
	}
	for name, field := range into {
		if raw, ok := fields[name]; ok && readPart(raw, field) != nil {
			_ = readPart([]byte("null"), field) // it may be half filled
		}
	}
}

// misfit names the first unreadable field, which decoder errors rarely do; nil = readable.
func misfit[T any](part string, data []byte, into *T) *Misfit {
	err := readPart(data, into)
	if err == nil {
		return nil
	}
	if fault := (*quantity.Fault)(nil); errors.As(err, &fault) { // its value must not be decoded again
		return &Misfit{Field: part + "." + fault.Field, Value: strconv.Quote(fault.Text), Err: fault.Err}
	}
	if m := (*quantity.Mismatch)(nil); errors.As(quantity.MismatchIn(data, into), &m) {
		return &Misfit{Field: strings.TrimSuffix(part+"."+m.Field, "."), Value: truncated(m.Value), Err: errors.New(m.Want)}
	}
	var content any
	if kjson.UnmarshalCaseSensitivePreserveInts(data, &content) != nil {
		return &Misfit{Field: part, Err: err}
	}
	path, culprit, first := findFault(content, func(x any) any { return x }, func(x any) error {
		text, err := json.Marshal(x)
		if err != nil {
			return nil // cannot happen: it came from JSON
		}
		return quantity.Unmarshal(text, new(T))
	})
	if first == nil {
		return &Misfit{Field: part, Err: err}
	}
	for _, odd := range []error{resource.ErrFormatWrong, resource.ErrNumeric, resource.ErrSuffix} {
		if errors.Is(first, odd) {
			first = errors.New("not a quantity; write it like " + quantity.Example)
		}
	}
	text, _ := json.Marshal(culprit)
	return &Misfit{Field: part + path, Value: truncated(text), Err: first}
}

const maxShown = 60

func truncated(text []byte) string {
	if len(text) > maxShown {
		text = append(text[:maxShown:maxShown], "..."...)
	}
	return string(text)
}

// findFault finds the smallest value that fails to decode with its siblings removed. wrap puts a
// value back into its place. It tries fields in name order.
func findFault(value any, wrap func(any) any, decode func(any) error) (path string, culprit any, err error) {
	if err = decode(wrap(value)); err == nil {
		return "", nil, nil
	}
	switch content := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(content)) {
			below, culprit, err := findFault(content[name], func(x any) any { return wrap(map[string]any{name: x}) }, decode)
			if err != nil {
				return "." + name + below, culprit, err
			}
		}
	case []any:
		for i, item := range content {
			below, culprit, err := findFault(item, func(x any) any { return wrap([]any{x}) }, decode)
			if err != nil {
				return fmt.Sprintf("[%d]%s", i, below), culprit, err
			}
		}
	}
	return "", value, err
}
