package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// number is rounded to three digits that count, without an exponent.
func number(value float64) string {
	switch size := math.Abs(value); {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return "unknown"
	case size >= 100 || size == 0:
		return count64(value)
	case size < 0.0005:
		return "<0.001"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(value)))))
	text := strconv.FormatFloat(value, 'f', min(digits, 3), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// count64 is a number, rounded to a whole one where it is large.
func count64(value float64) string {
	if math.Abs(value) < 100 && value != math.Trunc(value) {
		return number(value)
	}
	return count(int(math.Round(value)))
}

// count is a number with thousands apart.
func count(n int) string {
	text := strconv.Itoa(n)
	sign := ""
	if text[0] == '-' {
		sign, text = "−", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// share is a part in percent.
func share(part float64) string {
	switch percent := 100 * part; {
	case math.IsNaN(part):
		return "unknown"
	case percent > 0 && percent < 0.1:
		return "<0.1%"
	case percent < 10:
		return strings.TrimSuffix(strconv.FormatFloat(percent, 'f', 1, 64), ".0") + "%"
	default:
		return strconv.FormatFloat(percent, 'f', 0, 64) + "%"
	}
}

// exactShare is a part in percent, with three digits however small it is.
func exactShare(part float64) string { return number(100*part) + "%" }

// against is how much more or less a number is than before.
func against(now, before float64) string {
	if before == 0 {
		return "none before"
	}
	change := now/before - 1
	switch {
	case math.Abs(change) < 0.0005:
		return "the same"
	case change < 0:
		return "−" + share(-change)
	}
	return "+" + share(change)
}

// cores is an amount of CPU.
func cores(value float64) string {
	switch {
	case math.IsNaN(value):
		return "none"
	case value != 0 && value < 0.9995:
		return strconv.FormatFloat(1000*value, 'f', 0, 64) + "m"
	}
	return number(value)
}

// bytes is an amount of memory, in the unit that leaves one to four digits.
func bytes(value float64) string {
	if math.IsNaN(value) {
		return "none"
	}
	for _, unit := range []struct {
		name  string
		bytes float64
	}{{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if value >= unit.bytes {
			return number(value/unit.bytes) + unit.name
		}
	}
	return strconv.FormatFloat(value, 'f', 0, 64)
}

// long is a time in words, of days to the nearest hour.
func long(seconds float64) string {
	if seconds > 24*3600 {
		seconds = 3600 * math.Round(seconds/3600)
	}
	return duration.HumanDuration(time.Duration(seconds * float64(time.Second)))
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return count(n) + " " + what
}

// times is how often.
func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return count(n) + " times"
}

// changed is a change of an amount.
func changed(from, to *float64, as func(float64) string) string {
	text := func(of *float64) string {
		if of == nil {
			return "none"
		}
		return as(*of)
	}
	return fmt.Sprintf("%s → %s", text(from), text(to))
}
