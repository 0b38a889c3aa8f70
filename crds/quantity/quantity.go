// Package quantity is the only way from text to a quantity.
//
// apimachinery's parser spends minutes and hundreds of MiB on 1e-999999999 and cannot be
// interrupted. Anyone who can write such a text (in a status, an annotation, a rule, a review)
// could hang its readers. So this package first checks the CRD schema's bounds: at most 64
// characters, and exponents of at most three digits.
//
// Use Parse for text and Unmarshal for JSON. `make lint` refuses other callers of apimachinery's
// parser.
package quantity

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// MaxLength is the maximum number of characters; real quantities have up to 20.
	MaxLength = 64
	// MaxExponentDigits is the maximum number of exponent digits, including leading zeros.
	MaxExponentDigits = 3
	// Pattern is controller-gen's pattern for quantities, with whole exponents of at most three digits.
	Pattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,3}))?$`
)

// Example shows valid quantities in errors.
const Example = "500m, 2 or 1Gi"

var (
	errTooLong     = fmt.Errorf("a quantity has at most %d characters", MaxLength)
	errExponent    = errors.New("an exponent has at most three digits")
	errNotQuantity = errors.New("it is not a quantity such as " + Example)
)

// Check refuses a text that must not reach the parser; other texts need not be valid quantities.
// Surrounding blanks do not count, because JSON decoders drop them.
func Check(text string) error {
	text = strings.TrimSpace(text)
	if len(text) > MaxLength {
		return errTooLong
	}
	begin := len(text)
	for begin > 0 && isDigit(text[begin-1]) {
		begin--
	}
	digits := len(text) - begin
	if begin > 0 && (text[begin-1] == '+' || text[begin-1] == '-') {
		begin--
	}
	if begin > 0 && (text[begin-1] == 'e' || text[begin-1] == 'E') && digits > MaxExponentDigits {
		return errExponent
	}
	return nil
}

// Parse reads a quantity. The error omits the text, which may be long or hostile.
func Parse(text string) (resource.Quantity, error) {
	if err := Check(text); err != nil {
		return resource.Quantity{}, err
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, errNotQuantity
	}
	return q, nil
}

// Must reads a quantity constant and panics if it is invalid.
func Must(text string) resource.Quantity {
	q, err := Parse(text)
	if err != nil {
		panic(fmt.Sprintf("%q: %v", text, err))
	}
	return q
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
