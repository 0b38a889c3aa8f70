package page

import (
	"fmt"
	"strconv"

	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/markup"
)

// readable is a plain number of bytes in a binary unit, cut to a tenth; empty for all else.
func readable(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1<<20 {
		return ""
	}
	unit, shift := "Mi", 20
	if n >= 1<<40 {
		unit, shift = "Gi", 30
	}
	return fmt.Sprintf(" ≈ %d.%d%s", n>>shift, (n&(1<<shift-1))*10>>shift, unit)
}

// drawn is a quantity as a length; ok is false for what is none.
func drawn(text string) (length float64, ok bool) {
	if text == "" {
		return 0, false
	}
	q, err := quantity.Parse(text)
	if err != nil {
		return 0, false
	}
	return max(0, q.AsApproximateFloat64()), true
}

// scale turns quantities of a resource into positions from 0 to 1.
type scale struct {
	top    float64
	binary bool
}

// scaleOf fits the quantities of a resource that are none of the outer ones, and these as long as
// they are no more than 3 times as large: the upper bound of a young VPA would flatten all else.
func scaleOf(resource string, inner, outer []string) scale {
	s := scale{binary: resource != "cpu"}
	for _, text := range inner {
		if length, ok := drawn(text); ok {
			s.top = max(s.top, length)
		}
	}
	widest := 3 * s.top
	for _, text := range outer {
		if length, ok := drawn(text); ok && (length <= widest || widest == 0) {
			s.top = max(s.top, length)
		}
	}
	s.top *= 1.04
	return s
}

// at is where a quantity stands; past says that it is beyond the scale.
func (s scale) at(text string) (position float64, past, ok bool) {
	length, ok := drawn(text)
	if !ok || s.top == 0 {
		return 0, false, false
	}
	return min(1, length/s.top), length > s.top, true
}

// ticks are up to 4 round quantities above zero.
func (s scale) ticks() []markup.Tick { return markup.Ticks(s.top, s.binary) }
