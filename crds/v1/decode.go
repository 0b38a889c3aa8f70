package v1

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/crds/underway"
)

// fitting is a VerticalPodAutoscaler that is decoded as its fields say: all of it or an error.
type fitting VerticalPodAutoscaler

// Decode reads a VerticalPodAutoscaler from JSON and refuses one that does not fit the type. Field names are case-sensitive,
// unknown fields are left out. What judges an object that somebody writes uses it; what reads stored objects must not. The
// error is a *Misfit when the spec or the status is at fault.
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
	Field string // where it is, e.g. spec.resourcePolicy.containerPolicies[0].minAllowed.cpu
	Value string // the value as JSON, shortened; empty = not known
	Err   error  // what the decoder says
}

// Error implements error.
func (m *Misfit) Error() string {
	if m.Value == "" {
		return fmt.Sprintf("%s cannot be read: %v", m.Field, m.Err)
	}
	return fmt.Sprintf("%s cannot be read: it is %s: %v", m.Field, m.Value, m.Err)
}

// Unwrap is what the decoder says.
func (m *Misfit) Unwrap() error { return m.Err }

// Unknown tells of each field of a VerticalPodAutoscaler in JSON that the type does not have, or has twice. API servers drop
// such fields, so that a bound with a typing error is no bound.
func Unknown(data []byte) []error {
	unknown, err := quantity.UnmarshalStrict(data, &fitting{})
	if err != nil {
		return nil // it does not fit, as Decode says
	}
	return unknown
}

// UnmarshalJSON reads a stored object as far as it can be read. Without it one object that does not fit the type, such as
// upstream's CRD lets in, would keep a whole list from being read, and so everybody from being served. What could not be read
// is told by SpecUnreadable and StatusUnreadable; only an object without a readable name is an
// error.
func (v *VerticalPodAutoscaler) UnmarshalJSON(data []byte) error {
	defer underway.Begin("decoding VerticalPodAutoscaler", decodeLimit, true, func() string { return nameOf(data) })()
	*v = VerticalPodAutoscaler{}
	if quantity.Unmarshal(data, (*fitting)(v)) == nil {
		return nil
	}
	*v = VerticalPodAutoscaler{}
	return v.readParts(data)
}

// decodeLimit is far more than decoding the largest object takes that an API server stores.
const decodeLimit = 20 * time.Second

// nameOf is the namespace and name of an object in JSON, as far as they can be read.
func nameOf(data []byte) string {
	var object struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	_ = kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
	return object.Metadata.Namespace + "/" + object.Metadata.Name
}

// Unreadable says in a line what of a stored object could not be read; empty when all of it could. Whoever acts on the spec
// leaves such an object alone.
func (v *VerticalPodAutoscaler) Unreadable() string {
	switch {
	case v.SpecUnreadable == "":
		return v.StatusUnreadable
	case v.StatusUnreadable == "":
		return v.SpecUnreadable
	}
	return v.SpecUnreadable + "; " + v.StatusUnreadable
}

// readParts reads the parts of an object that does not fit the type, each for itself.
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
		// Half a policy might let through what the other half forbids. What the object is about, and for whom, is harmless.
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

// readFields reads the named fields that can be read; the others stay unset.
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

// misfit reads a part and names its first field that cannot be read, which errors of the decoder rarely do; nil = it fits.
func misfit[T any](part string, data []byte, into *T) *Misfit {
	err := readPart(data, into)
	if err == nil {
		return nil
	}
	if fault := (*quantity.Fault)(nil); errors.As(err, &fault) { // its value must not be decoded any more
		return &Misfit{Field: part + "." + fault.Field, Value: strconv.Quote(fault.Text), Err: fault.Err}
	}
	var content any
	if kjson.UnmarshalCaseSensitivePreserveInts(data, &content) != nil {
		return &Misfit{Field: part, Err: err}
	}
	path, culprit, first := findFault(content, func(x any) any { return x }, func(x any) error {
		text, err := json.Marshal(x)
		if err != nil {
			return nil // it was read from JSON, so this cannot be
		}
		return quantity.Unmarshal(text, new(T))
	})
	if first == nil {
		return &Misfit{Field: part, Err: err}
	}
	text, _ := json.Marshal(culprit)
	if len(text) > maxShown {
		text = append(text[:maxShown:maxShown], "..."...)
	}
	return &Misfit{Field: part + path, Value: string(text), Err: first}
}

// maxShown is how many bytes of a value a message shows.
const maxShown = 60

// findFault goes down to the smallest value with which decoding fails while everything beside it is left away. wrap puts a
// value back into its place. Fields are tried in the order of their names.
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
		for i, one := range content {
			below, culprit, err := findFault(one, func(x any) any { return wrap([]any{x}) }, decode)
			if err != nil {
				return fmt.Sprintf("[%d]%s", i, below), culprit, err
			}
		}
	}
	return "", value, err
}
