package quantity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Mismatch is a value of another type than its field has, in the words of YAML instead of Go.
type Mismatch struct {
	Field string         // e.g. spec.containers[0].name; empty = the whole value
	Value jsontext.Value // that is there
	Want  string         // e.g. must be a whole number, and the way out
}

// Error implements error.
func (m *Mismatch) Error() string {
	return fmt.Sprintf("%s is %s, and %s", cmp.Or(m.Field, "it"), shown(m.Value), m.Want)
}

// maxShown is how many characters of a value an error shows.
const maxShown = 60

// MismatchIn says which field of JSON has a value of another type than it has in the type of a
// pointer, for data that Unmarshal refuses; nil = none has, or its type is not known here.
func MismatchIn(data []byte, into any) error {
	var at *json.SemanticError
	err := json.Unmarshal(data, reflect.New(reflect.TypeOf(into).Elem()).Interface(), checked)
	if !errors.As(err, &at) || at.GoType == nil {
		return nil
	}
	value, ok := valueAt(data, at.JSONPointer)
	if !ok {
		return nil
	}
	want, kinds := wanted(at.GoType)
	tooLong := value.Kind() == '0' && at.GoType.Kind() != reflect.Float64
	if want == "" || strings.ContainsRune(kinds, rune(value.Kind())) && !tooLong {
		return nil
	}
	return &Mismatch{Field: fieldAt(at.JSONPointer), Value: value, Want: "must be " + want + hint(value, kinds)}
}

// wanted describes the values of a type, and lists the JSON kinds of those that can be read, or
// whose fault others name; empty = not known.
func wanted(t reflect.Type) (want, kinds string) {
	switch t.PkgPath() + "." + t.Name() {
	case "k8s.io/apimachinery/pkg/apis/meta/v1.Time", "k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":
		return "a time such as 2026-01-31T12:00:00Z", ""
	case "k8s.io/apimachinery/pkg/apis/meta/v1.Duration":
		return "a duration such as 90s", ""
	case "k8s.io/apimachinery/pkg/util/intstr.IntOrString":
		return "a whole number or a percentage such as 25%", ""
	case "k8s.io/apimachinery/pkg/api/resource.Quantity":
		return "a quantity such as " + Example, `"0tf`
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.String:
		return "a string", `"`
	case reflect.Bool:
		return "true or false", "tf"
	case reflect.Int32:
		return "a whole number of at most " + strconv.Itoa(math.MaxInt32), "0"
	case reflect.Int64:
		return "a whole number of at most " + strconv.Itoa(math.MaxInt64), "0"
	case reflect.Float64:
		return "a number", "0"
	case reflect.Slice, reflect.Array:
		return "a list", "["
	case reflect.Struct, reflect.Map:
		return "a mapping", "{"
	}
	return "", ""
}

// hint is the way out where YAML reads text as something else than was meant.
func hint(value jsontext.Value, kinds string) string {
	switch kind := value.Kind(); {
	case kinds == `"` && strings.ContainsRune("tf0", rune(kind)):
		return "; put quotes around it: YAML takes words such as n, no and off for true or false, and digits for numbers"
	case kind == '"' && kinds != "" && strings.ContainsRune(kinds, rune(jsontext.Value(textOf(value)).Kind())):
		return "; leave out the quotes"
	}
	return ""
}

// shown is a value in an error.
func shown(value jsontext.Value) string {
	switch value.Kind() {
	case '{':
		return "a mapping"
	case '[':
		return "a list"
	case '"':
		text := textOf(value)
		if len(text) > maxShown {
			text = strings.ToValidUTF8(text[:maxShown], "") + "..."
		}
		return "the string " + strconv.Quote(text)
	case '0':
		return "the number " + string(value[:min(len(value), maxShown)])
	}
	return string(value)
}

// valueAt is the value at a JSON pointer.
func valueAt(data []byte, at jsontext.Pointer) (jsontext.Value, bool) {
	value := jsontext.Value(data)
	for token := range at.Tokens() {
		var err error
		var below jsontext.Value
		switch value.Kind() {
		case '{':
			var fields map[string]jsontext.Value
			err = json.Unmarshal(value, &fields, Lenient)
			below = fields[token]
		case '[':
			var items []jsontext.Value
			i, wrong := strconv.Atoi(token)
			if err = json.Unmarshal(value, &items, Lenient); wrong == nil && i >= 0 && i < len(items) {
				below = items[i]
			}
		}
		if err != nil || below == nil {
			return nil, false
		}
		value = below
	}
	return value, true
}
