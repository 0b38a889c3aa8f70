package quantity

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
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

func newFault(text string, err error) *Fault {
	return &Fault{Text: strings.ToValidUTF8(text[:min(len(text), MaxLength)], ""), Err: err}
}

// Unmarshal decodes JSON like Kubernetes does (case-sensitive names, exact integers), but checks
// each quantity first. The error is a *Fault for the first refused quantity.
func Unmarshal(data []byte, into any) error {
	if err := checkJSON(data, into); err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// UnmarshalStrict is Unmarshal that also reports unknown and duplicate fields.
func UnmarshalStrict(data []byte, into any) (unknown []error, err error) {
	if err := checkJSON(data, into); err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(data, into)
}

// checkJSON refuses JSON with a quantity that must not reach the parser. The decoder reports
// malformed JSON and other type mismatches.
func checkJSON(data []byte, into any) error {
	if into == nil || !suspicious(data) {
		return nil
	}
	err := json.Unmarshal(data, reflect.New(reflect.TypeOf(into)).Interface(), onlyCheck)
	if err == nil || !stdjson.Valid(data) { // no decoder reads any value then
		return nil
	}
	return asFault(err)
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
		case run > 0 && (c == 'e' || c == 'E'): // not that of service-0001
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
