package schema

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/cel/common"
)

// TooLarge lists lists, maps and strings of the spec beyond the schema's bounds, and quantities
// with too many digits. Webhooks run before schema validation, and the cost limits of rules assume
// those bounds. Unchanged values pass, as in API servers, except such quantities.
func (o *Objects) TooLarge(object, old map[string]any) []Fault {
	if !o.shape.exceeded(object) {
		return nil // as for most objects
	}
	root := &node{shape: o.shape, now: object}
	if old != nil {
		root.same = common.NewCorrelatedObject(object, old, o.shape)
	}
	var out []Fault
	if spec := root.field("spec"); spec != nil {
		spec.tooLarge(&out)
	}
	return out
}

// exponent matches quantities far beyond any real one: 1e1000 has a thousand digits.
var exponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

// exceeded reports whether a value or a part of it is beyond the bounds of the schema.
func (s *shape) exceeded(v any) bool {
	switch v := v.(type) {
	case string:
		return s.IsXIntOrString() && exponent.MatchString(v) || above(utf8.RuneCountInString(v), s.MaxLength())
	case []any:
		return above(len(v), s.MaxItems()) || s.items != nil && slices.ContainsFunc(v, s.items.exceeded)
	case map[string]any:
		for name, part := range v {
			if below := s.below(name); below != nil && below.exceeded(part) {
				return true
			}
		}
		return above(len(v), s.MaxProperties())
	}
	return false
}

func above(size int, most *int64) bool { return most != nil && int64(size) > *most }

func (n *node) tooLarge(out *[]Fault) {
	exceeded := func(size int, most *int64, reason metav1.CauseType, what string) bool {
		if !above(size, most) || n.Unchanged() {
			return false
		}
		*out = append(*out, Fault{Field: n.Path(), Reason: reason, Message: fmt.Sprintf("Too large: %d %s, at most %d are allowed", size, what, *most)})
		return true
	}
	switch v := n.now.(type) {
	case string:
		if n.shape.IsXIntOrString() && exponent.MatchString(v) {
			*out = append(*out, Fault{Field: n.Path(), Reason: metav1.CauseTypeFieldValueInvalid, Message: "Invalid value: an exponent has at most three digits; write it like 500m, 2 or 1Gi"})
			return
		}
		exceeded(utf8.RuneCountInString(v), n.shape.MaxLength(), metav1.CauseTypeTooLong, "characters")
	case []any:
		if n.shape.items == nil || exceeded(len(v), n.shape.MaxItems(), metav1.CauseTypeTooMany, "entries") {
			return
		}
		for _, entry := range n.appendEntries(nil) {
			entry.(*node).tooLarge(out)
		}
	case map[string]any:
		if exceeded(len(v), n.shape.MaxProperties(), metav1.CauseTypeTooMany, "entries") {
			return
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if field := n.field(key); field != nil {
				field.tooLarge(out)
			}
		}
	}
}
