package quantity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	kjson "sigs.k8s.io/json"
)

// Fault is a quantity in JSON that must not reach the parser.
type Fault struct {
	Field string // where it is, e.g. spec.containers[0].resources.requests.cpu
	Text  string // shortened
	Err   error
}

// Error implements error.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s is %q: %v; write it like %s", f.Field, f.Text, f.Err, Example)
}

// Unwrap is what is wrong with it.
func (f *Fault) Unwrap() error { return f.Err }

// maxShown is how many bytes of a text a fault shows.
const maxShown = MaxLength

// Unmarshal decodes JSON into a type that may hold quantities, as Kubernetes does: names of fields are case-sensitive, and whole
// numbers stay whole. Unlike there, each quantity is checked first; the error is a *Fault for the first that is refused.
func Unmarshal(data []byte, into any) error {
	if err := CheckJSON(data, into); err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// UnmarshalStrict is Unmarshal, and tells of fields that the type does not have, or that stand twice.
func UnmarshalStrict(data []byte, into any) (unknown []error, err error) {
	if err := CheckJSON(data, into); err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(data, into)
}

// CheckJSON refuses JSON in which something that a type declares a quantity must not reach the parser. JSON that is malformed or
// does not fit the type otherwise is left to the decoder.
func CheckJSON(data []byte, into any) error {
	t := reflect.TypeOf(into)
	if !suspicious(data) || t == nil || !holds(t) {
		return nil
	}
	if !json.Valid(data) {
		return nil // no decoder looks at any value then
	}
	w := walker{decoder: json.NewDecoder(bytes.NewReader(data))}
	w.decoder.UseNumber()
	return w.value(t, "")
}

// suspicious reports whether JSON might hold a quantity that Check refuses and the parser would not refuse at once: an exponent
// of four digits, or very many digits, in plain or escaped. Hardly any JSON does, so that hardly any is read twice.
func suspicious(data []byte) bool {
	run := 0 // of digits and points
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case isDigit(c) || c == '.':
			if run++; run > MaxLength-10 {
				return true
			}
			continue
		case c == 'e' || c == 'E':
			if longExponent(data[i+1:]) {
				return true
			}
		case c == '\\':
			if escapesNumber(data[i+1:]) {
				return true
			}
			i++
		}
		run = 0
	}
	return false
}

// longExponent reports whether more digits follow than an exponent has.
func longExponent(rest []byte) bool {
	if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
		rest = rest[1:]
	}
	for i := range rest {
		if !isDigit(rest[i]) {
			return false
		}
		if i == MaxExponentDigits {
			return true
		}
	}
	return false
}

// escapesNumber reports whether what follows a backslash stands for a character that numbers are made of.
func escapesNumber(rest []byte) bool {
	if len(rest) < 5 || rest[0] != 'u' || rest[1] != '0' || rest[2] != '0' {
		return false
	}
	switch rest[3] {
	case '2': // + - .
		return strings.IndexByte("bBdDeE", rest[4]) >= 0
	case '3':
		return isDigit(rest[4])
	case '4', '6': // E e
		return rest[4] == '5'
	}
	return false
}

// walker goes through JSON beside the type that it is decoded into. It sees every value, of a name that stands twice both.
type walker struct {
	decoder *json.Decoder
}

// value checks the next value; t is nil where nothing below is a quantity.
func (w *walker) value(t reflect.Type, field string) error {
	token, err := w.decoder.Token()
	if err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	if t != nil {
		t = pointedTo(t)
	}
	switch token := token.(type) {
	case json.Delim:
		switch {
		case t == nil || t == quantityType:
			return w.skip()
		case token == '{':
			return w.object(t, field)
		}
		return w.list(t, field)
	case string:
		return check(t, field, token)
	case json.Number:
		return check(t, field, string(token))
	}
	return nil
}

func check(t reflect.Type, field, text string) error {
	if t != quantityType {
		return nil
	}
	if err := Check(text); err != nil {
		return &Fault{Field: field, Text: strings.ToValidUTF8(text[:min(len(text), maxShown)], ""), Err: err}
	}
	return nil
}

// skip goes to the end of the object or list that has begun.
func (w *walker) skip() error {
	for depth := 1; depth > 0; {
		token, err := w.decoder.Token()
		if err != nil {
			return fmt.Errorf("reading JSON: %w", err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil
}

func (w *walker) object(t reflect.Type, field string) error {
	for w.decoder.More() {
		token, err := w.decoder.Token()
		if err != nil {
			return fmt.Errorf("reading JSON: %w", err)
		}
		name, _ := token.(string)
		var below reflect.Type
		switch t.Kind() {
		case reflect.Map:
			below = t.Elem()
		case reflect.Struct:
			below = fieldOf(t, name)
		}
		if below != nil && !holds(below) {
			below = nil
		}
		at := field
		if below != nil {
			at = strings.TrimPrefix(field+"."+name, ".")
		}
		if err := w.value(below, at); err != nil {
			return err
		}
	}
	return w.end()
}

func (w *walker) list(t reflect.Type, field string) error {
	var below reflect.Type
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		below = t.Elem()
	}
	for i := 0; w.decoder.More(); i++ {
		if err := w.value(below, fmt.Sprintf("%s[%d]", field, i)); err != nil {
			return err
		}
	}
	return w.end()
}

func (w *walker) end() error {
	if _, err := w.decoder.Token(); err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	return nil
}

var quantityType = reflect.TypeFor[resource.Quantity]()

func pointedTo(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

var (
	holding sync.Map // reflect.Type to whether it holds quantities
	fields  sync.Map // reflect.Type of a struct to its fields, as a map[string]reflect.Type by name
)

// holds reports whether a value of a type may hold quantities.
func holds(t reflect.Type) bool {
	if known, ok := holding.Load(t); ok {
		return known.(bool)
	}
	found := search(t, map[reflect.Type]bool{})
	holding.Store(t, found)
	return found
}

func search(t reflect.Type, seen map[reflect.Type]bool) bool {
	t = pointedTo(t)
	if t == quantityType {
		return true
	}
	if seen[t] {
		return false // whoever came by before goes on
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array:
		return search(t.Elem(), seen)
	case reflect.Struct:
		for _, below := range fieldsOf(t) {
			if search(below, seen) {
				return true
			}
		}
	}
	return false
}

// fieldOf is the type of a field by the name that it has in JSON; nil without one. Some decoders do not tell upper from lower
// case.
func fieldOf(t reflect.Type, name string) reflect.Type {
	all := fieldsOf(t)
	if exact := all[name]; exact != nil {
		return exact
	}
	for known, below := range all {
		if strings.EqualFold(known, name) {
			return below
		}
	}
	return nil
}

// fieldsOf are the fields of a struct by the names that they have in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := fields.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch embedded := pointedTo(f.Type); {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			for name, below := range fieldsOf(embedded) {
				if out[name] == nil {
					out[name] = below
				}
			}
		case name == "":
			out[f.Name] = f.Type
		default:
			out[name] = f.Type
		}
	}
	fields.Store(t, out)
	return out
}
