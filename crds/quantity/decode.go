package quantity

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Lenient reads JSON like API servers do: the last duplicate key wins, and strings may hold invalid
// UTF-8. encoding/json/v2 refuses both by default.
var Lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

var checked = json.JoinOptions(Lenient, json.WithUnmarshalers(json.UnmarshalFunc(func(data []byte, q *resource.Quantity) error {
	if jsontext.Value(data).Kind() == jsontext.KindNull {
		*q = resource.Quantity{}
		return nil
	}
	text := textOf(data)
	parsed, err := Parse(strings.TrimSpace(text))
	if err != nil {
		return newFault(text, err)
	}
	*q = parsed
	return nil
})))

// onlyCheck reads nothing, checks each quantity, and tolerates what does not fit its type.
var onlyCheck = json.JoinOptions(Lenient, json.MatchCaseInsensitiveNames(true), json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFunc(func(data []byte, _ *resource.Quantity) error {
		text := textOf(data)
		if kind := jsontext.Value(data).Kind(); kind == jsontext.KindBeginObject || kind == jsontext.KindBeginArray {
			return nil
		}
		if err := Check(text); err != nil {
			return newFault(text, err)
		}
		return nil
	}),
	json.UnmarshalFromFunc(func(from *jsontext.Decoder, into any) error {
		if _, reads := into.(stdjson.Unmarshaler); reads || !mayHold(reflect.TypeOf(into).Elem().Kind(), from.PeekKind()) {
			return from.SkipValue()
		}
		return errors.ErrUnsupported // look into it
	}),
)))

// mayHold reports whether values of a kind can hold quantities when JSON of a kind is read into them.
func mayHold(kind reflect.Kind, in jsontext.Kind) bool {
	switch kind {
	case reflect.Pointer:
		return true
	case reflect.Struct, reflect.Map:
		return in == jsontext.KindBeginObject
	case reflect.Slice, reflect.Array:
		return in == jsontext.KindBeginArray
	}
	return false
}

// textOf is the text of a number or string. Invalid UTF-8 is replaced and is not a quantity.
func textOf(data jsontext.Value) string {
	if data.Kind() == jsontext.KindString {
		data, _ = jsontext.AppendUnquote(nil, data)
	}
	return string(data)
}

// Decode is Unmarshal in one pass, with encoding/json/v2.
func Decode(data []byte, into any) error { return asFault(json.Unmarshal(data, into, checked)) }

// asFault names the field of the fault in an error, if any.
func asFault(err error) error {
	var fault *Fault
	var at *json.SemanticError
	if errors.As(err, &fault) && errors.As(err, &at) {
		fault.Field = fieldAt(at.JSONPointer)
		return fault
	}
	return err
}

// fieldAt formats a JSON pointer as a field path such as spec.containers[0].name.
func fieldAt(at jsontext.Pointer) string {
	var field strings.Builder
	for token := range at.Tokens() {
		switch {
		case strings.Trim(token, "0123456789") == "":
			fmt.Fprintf(&field, "[%s]", token)
		case field.Len() > 0:
			field.WriteString("." + token)
		default:
			field.WriteString(token)
		}
	}
	return field.String()
}
