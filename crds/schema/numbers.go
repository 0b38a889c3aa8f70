package schema

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
