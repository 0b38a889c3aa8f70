package schema

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/cel/common"
)

// TooLarge tells which lists, maps and texts of the spec are larger than the schema lets them be, and which quantities have
// so many digits that reckoning with them takes for ever. A webhook is asked before the API server looks at that, and
// rules, whose cost is bounded by those sizes, must not be run on anything larger. What is not changed is let through, as
// the API server does, but for such quantities.
func (o *Objects) TooLarge(object, old map[string]any) []Fault {
	root := node{shape: o.shape, now: object}
	if old != nil {
		root.same = common.NewCorrelatedObject(object, old, o.shape)
	}
	var out []Fault
	for _, spec := range walk([]string{"spec"}, root) {
		spec.tooLarge(&out)
	}
	return out
}

// exponent matches quantities that no real one is like: 1e1000 has a thousand digits.
var exponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

func (n *node) tooLarge(out *[]Fault) {
	exceeded := func(size int, most *int64, reason metav1.CauseType, what string) bool {
		if most == nil || int64(size) <= *most || n.unchanged() {
			return false
		}
		*out = append(*out, Fault{Field: n.path, Reason: reason, Message: fmt.Sprintf("Too large: %d %s, at most %d are allowed", size, what, *most)})
		return true
	}
	switch v := n.now.(type) {
	case string:
		if n.shape.IsXIntOrString() && exponent.MatchString(v) {
			*out = append(*out, Fault{Field: n.path, Reason: metav1.CauseTypeFieldValueInvalid, Message: "Invalid value: an exponent has at most three digits; write it like 500m, 2 or 1Gi"})
			return
		}
		exceeded(utf8.RuneCountInString(v), n.shape.MaxLength(), metav1.CauseTypeTooLong, "characters")
	case []any:
		if n.shape.items == nil || exceeded(len(v), n.shape.MaxItems(), metav1.CauseTypeTooMany, "entries") {
			return
		}
		for i, item := range v {
			entry := n.below(n.path+"["+strconv.Itoa(i)+"]", n.shape.items, item, func(c *common.CorrelatedObject) *common.CorrelatedObject { return c.Index(i) })
			entry.tooLarge(out)
		}
	case map[string]any:
		if exceeded(len(v), n.shape.MaxProperties(), metav1.CauseTypeTooMany, "entries") {
			return
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			field := n.shape.field(key)
			if field == nil && n.shape.additional != nil {
				field, _ = n.shape.additional.schema.(*shape)
			}
			if field == nil {
				continue
			}
			below := n.below(n.path+"."+key, field, v[key], func(c *common.CorrelatedObject) *common.CorrelatedObject { return c.Key(key) })
			below.tooLarge(out)
		}
	}
}
