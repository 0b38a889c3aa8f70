// Package quantity is the only way from text to a quantity.
//
// Parsing is cheap for the quantities that people write. For others it is not: 1e-999999999 keeps apimachinery's parser busy
// for many minutes, takes hundreds of MiB and cannot be interrupted. Whoever may write such a text somewhere (a status, an
// annotation, a rule, a review) would stop whoever reads it. So each text is checked first, by the bounds that the CRD's
// schema sets: at most 64 characters, and exponents of at most three digits.
//
// Texts go through Parse. JSON that holds quantities goes through Unmarshal, or through CheckJSON where something else
// decodes it. `make lint` keeps other callers away from apimachinery's parser.
package quantity

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// MaxLength is how many characters a quantity has at most; the longest in use have about 20.
	MaxLength = 64
	// MaxExponentDigits is how many digits an exponent has at most, leading zeros included.
	MaxExponentDigits = 3
	// Pattern is what generated schemas have for quantities, except that exponents are whole numbers, of three digits at most.
	Pattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,3}))?$`
)

// Example is how errors say what a quantity looks like.
const Example = "500m, 2 or 1Gi"

var (
	errTooLong     = fmt.Errorf("a quantity has at most %d characters", MaxLength)
	errExponent    = errors.New("an exponent has at most three digits")
	errNotQuantity = errors.New("it is not a quantity such as " + Example)
)

// Check refuses a text that must not reach the parser. What it lets pass need not be a quantity; blanks around the text do not
// count, because JSON decoders drop them.
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

// Parse reads a quantity. The error does not repeat the text, which may be long or hostile.
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

// Must reads a quantity that is part of the program, and panics if it is none.
func Must(text string) resource.Quantity {
	q, err := Parse(text)
	if err != nil {
		panic(fmt.Sprintf("%q: %v", text, err))
	}
	return q
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
