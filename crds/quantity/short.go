package quantity

import (
	"fmt"
	"math"
	"strings"

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
		return rounded(q.MilliValue(), 1000, "")
	}
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return text
	}
	bytes := q.Value()
	if exact := resource.NewQuantity(bytes, resource.BinarySI).String(); len(exact) <= shortest {
		return exact
	}
	unit, suffix := int64(1), 0
	for bytes/unit >= 1024 {
		unit, suffix = unit*1024, suffix+1
	}
	return rounded(bytes, unit, suffixes[suffix])
}

var suffixes = []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

// rounded writes n/unit with three digits, or with all before the point.
func rounded(n, unit int64, suffix string) string {
	scale := int64(1)
	for n/unit*scale < 100 && scale < 100 {
		scale *= 10
	}
	whole := n / unit
	hundredths := whole*scale + roundedShare(n%unit, unit, scale)
	if scale == 1 {
		return fmt.Sprintf("%d%s", hundredths, suffix)
	}
	digits := strings.TrimRight(fmt.Sprintf("%0*d", len(fmt.Sprint(scale))-1, hundredths%scale), "0")
	if digits != "" {
		digits = "." + digits
	}
	return fmt.Sprintf("%d%s%s", hundredths/scale, digits, suffix)
}

// roundedShare is part/whole of scale, to the nearest.
func roundedShare(part, whole, scale int64) int64 {
	if whole > math.MaxInt64/1000 { // part*scale would overflow
		part, whole = part/1000, whole/1000
	}
	return (part*scale + whole/2) / whole
}

// FromTo is a change of a quantity as people read it, e.g. 128Mi → 561Mi; exact where both would read the same.
func FromTo(from, to string) string {
	a, b := Short(from), Short(to)
	if a == b {
		a, b = from, to
	}
	return a + " → " + b
}
