package quantity

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Lenient reads JSON like API servers do: the last duplicate key wins, and strings may hold invalid
// UTF-8. encoding/json/v2 refuses both by default.
var Lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

var checked = json.JoinOptions(Lenient, json.WithUnmarshalers(json.UnmarshalFunc(func(data []byte, q *resource.Quantity) error {
	text := data
	switch jsontext.Value(data).Kind() {
	case 'n':
		*q = resource.Quantity{}
		return nil
	case '"':
		text, _ = jsontext.AppendUnquote(nil, data) // invalid UTF-8 is replaced and is no quantity
	}
	parsed, err := Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return &Fault{Text: strings.ToValidUTF8(string(text[:min(len(text), maxShown)]), ""), Err: err}
	}
	*q = parsed
	return nil
})))

// Decode is Unmarshal in one pass, with encoding/json/v2.
func Decode(data []byte, into any) error {
	err := json.Unmarshal(data, into, checked)
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
