package quantity

import (
	"math"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// shortest is the number of characters up to which an exact text is short enough.
	shortest = 6
	// largestCPU is the number from which an amount counts as bytes, which have binary suffixes.
	largestCPU = 1_000_000
)

// Short is a quantity as people read it: the text itself if it is short, else its exact value in another unit if that is, else three
// digits, e.g. 561Mi for 587804717 and 229 for 228956m. It is for tables and sentences, never for what is read again. What is not a
// quantity, or exceeds 64 bits, stays as it is.
func Short(text string) string {
	if len(text) <= shortest {
		return text
	}
	if positive, negative := strings.CutPrefix(text, "-"); negative {
		return "-" + Short(positive)
	}
	q, err := Parse(text)
	if err != nil {
		return text
	}
	if q.CmpInt64(largestCPU) < 0 {
		return rounded(q.MilliValue(), 1000)
	}
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return text
	}
	bytes := q.Value()
	if exact := resource.NewQuantity(bytes, resource.BinarySI).String(); len(exact) <= shortest {
		return exact
	}
	unit, power := int64(1), 0
	for bytes/unit >= 1024 {
		unit, power = unit*1024, power+1
	}
	return rounded(bytes, unit) + binarySuffixes[power]
}

var binarySuffixes = []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

// rounded is n/unit to three digits, or to a whole number if that has more.
func rounded(n, unit int64) string {
	decimals := inf.Scale(2)
	for most := int64(10); decimals > 0 && n/unit >= most; most *= 10 {
		decimals--
	}
	text := new(inf.Dec).QuoRound(inf.NewDec(n, 0), inf.NewDec(unit, 0), decimals, inf.RoundHalfUp).String()
	if decimals > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// FromTo is a change of a quantity as people read it, e.g. 128Mi → 561Mi; exact where both would read the same.
func FromTo(from, to string) string {
	a, b := Short(from), Short(to)
	if a == b {
		a, b = from, to
	}
	return a + " → " + b
}
