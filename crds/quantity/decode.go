package quantity

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Lenient reads JSON as API servers do: of a key that stands twice the last one counts, and texts may hold bytes that are no
// UTF-8. encoding/json/v2 refuses both unless it is asked not to.
var Lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// checked parses quantities with Parse.
var checked = json.JoinOptions(Lenient, json.WithUnmarshalers(json.UnmarshalFunc(func(data []byte, q *resource.Quantity) error {
	text := data
	switch jsontext.Value(data).Kind() {
	case 'n':
		*q = resource.Quantity{}
		return nil
	case '"':
		text, _ = jsontext.AppendUnquote(nil, data) // invalid UTF-8 is replaced, and no quantity
	}
	parsed, err := Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return &Fault{Text: strings.ToValidUTF8(string(text[:min(len(text), maxShown)]), ""), Err: err}
	}
	*q = parsed
	return nil
})))

// Decode decodes JSON into a type that may hold quantities, and checks each before it is parsed. It is Unmarshal in one pass, with
// encoding/json/v2. The error is a *Fault for the first quantity that is refused.
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

// fieldAt writes a JSON pointer as errors show fields, such as spec.containers[0].name.
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
