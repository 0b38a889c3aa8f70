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
	Field string // e.g. spec.containers[0].resources.requests.cpu
	Text  string // truncated
	Err   error
}

// Error implements error.
func (f *Fault) Error() string {
	return fmt.Sprintf("%s is %q: %v; write it like %s", f.Field, f.Text, f.Err, Example)
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

const maxShown = MaxLength

// Unmarshal decodes JSON like Kubernetes does (case-sensitive names, exact integers), but checks
// each quantity first. The error is a *Fault for the first refused quantity.
func Unmarshal(data []byte, into any) error {
	if err := CheckJSON(data, into); err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// UnmarshalStrict is Unmarshal that also reports unknown and duplicate fields.
func UnmarshalStrict(data []byte, into any) (unknown []error, err error) {
	if err := CheckJSON(data, into); err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(data, into)
}

// CheckJSON refuses JSON with a quantity that must not reach the parser. The decoder reports
// malformed JSON and other type mismatches.
func CheckJSON(data []byte, into any) error {
	t := reflect.TypeOf(into)
	if !suspicious(data) || t == nil || !holds(t) {
		return nil
	}
	if !json.Valid(data) {
		return nil // no decoder reads any value then
	}
	w := walker{decoder: json.NewDecoder(bytes.NewReader(data))}
	w.decoder.UseNumber()
	return w.value(t, "")
}

// suspicious finds exponents of four digits and very long numbers, plain or escaped. Almost no JSON
// has any, so the full check is rare.
func suspicious(data []byte) bool {
	run := 0 // digits and points
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

// longExponent reports whether an exponent has too many digits.
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

// escapesNumber reports whether an escape stands for a character of a number.
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

// walker walks JSON along its Go type. It visits both values of a duplicate key.
type walker struct {
	decoder *json.Decoder
}

// value checks the next value; t is nil if no quantity can follow.
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

// skip skips the rest of the current object or list.
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
	holding sync.Map // reflect.Type → whether it holds quantities
	fields  sync.Map // struct reflect.Type → map[string]reflect.Type by JSON name
)

// holds reports whether a type can hold quantities.
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
		return false // recursive type: the caller checks the rest
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

// fieldOf returns the type of a field by its JSON name, or nil. Some decoders ignore case.
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

// fieldsOf returns the field types of a struct by JSON name.
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
