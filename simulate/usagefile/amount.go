package usagefile

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Amounts are exact decimals, truncated to their unit as recommenders do (UPSTREAM.md §2.9).
const (
	unit  = 0
	milli = 3
	nano  = 9

	ofMilliseconds = 6 // to nanoseconds
)

// most is the largest valid amount, in milli-cores or bytes (UPSTREAM.md §2.9).
const most = 100_000_000_000_000

var (
	errNotNumber = errors.New("is not a number")
	errNegative  = errors.New("is less than 0")
	errHuge      = errors.New("is too large")
)

// decimal reads a number such as 12, 0.25, .5 or 1.5e-05 times 10^scale, truncated.
func decimal(text string, scale int) (int64, error) {
	digits, negative := text, false
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		digits, negative = digits[1:], digits[0] == '-'
	}
	digits, exponent, err := splitExponent(digits)
	if err != nil {
		return 0, err
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	if whole+fraction == "" {
		return 0, errNotNumber
	}
	places := len(whole) + exponent + scale // position of the decimal point
	var n int64
	any, huge := false, false
	for i := range len(whole) + len(fraction) {
		c := digit(whole, fraction, i)
		switch {
		case c > '9' || c < '0':
			return 0, errNotNumber
		case c != '0':
			any = true
		}
		if i < places && !huge {
			n, huge = shift(n, int64(c-'0'))
		}
	}
	for i := len(whole) + len(fraction); i < places && any && !huge; i++ {
		n, huge = shift(n, 0)
	}
	switch {
	case negative && any:
		return 0, errNegative
	case huge:
		return 0, errHuge
	}
	return n, nil
}

func digit(whole, fraction string, i int) byte {
	if i < len(whole) {
		return whole[i]
	}
	return fraction[i-len(whole)]
}

func shift(n, digit int64) (_ int64, huge bool) {
	if n > (math.MaxInt64-digit)/10 {
		return 0, true
	}
	return n*10 + digit, false
}

// splitExponent clamps the exponent where larger ones make no difference.
func splitExponent(text string) (digits string, exponent int, err error) {
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return text, 0, nil
	}
	digits, rest := text[:at], text[at+1:]
	sign := 1
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		if rest[0] == '-' {
			sign = -1
		}
		rest = rest[1:]
	}
	if rest == "" {
		return "", 0, errNotNumber
	}
	for i := range len(rest) {
		if rest[i] < '0' || rest[i] > '9' {
			return "", 0, errNotNumber
		}
		exponent = min(exponent*10+int(rest[i]-'0'), 1<<30)
	}
	return digits, sign * exponent, nil
}

// scaleOf is that of amounts: CPU is in milli-cores.
func scaleOf(kind Kind) int {
	if kind == CPU {
		return milli
	}
	return unit
}

// largest is the largest valid amount times 10^scale: that of a single core, in nano-cores, is lower.
func largest(scale int) uint64 {
	if scale == nano {
		return math.MaxInt64
	}
	return most
}

// amount reads cores or bytes, times 10^scale.
func amount(kind Kind, scale int, text string) (int64, error) {
	form := "bytes, such as 1073741824"
	if kind == CPU {
		form = "cores, such as 0.25"
	}
	n, err := decimal(text, scale)
	if err == nil && uint64(n) > largest(scale) {
		err = errHuge
	}
	if err != nil {
		return 0, fmt.Errorf("value %q %w; it is in %s", text, err, form)
	}
	return n, nil
}

// ParseTime reads RFC 3339 or unix seconds, with or without a fraction, between 1970 and 2262.
func ParseTime(text string) (time.Time, error) {
	n, err := nanoseconds(text)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(0, n).UTC(), nil
}

func nanoseconds(text string) (int64, error) {
	if len(text) > 4 && text[4] == '-' {
		at, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "T", 1))
		if err != nil {
			var wrong *time.ParseError
			if errors.As(err, &wrong) && strings.HasSuffix(wrong.Message, "out of range") {
				return 0, fmt.Errorf("time %q: %s", text, strings.TrimPrefix(wrong.Message, ": "))
			}
			return 0, fmt.Errorf("time %q is not written like 2026-01-31T12:00:00Z", text)
		}
		if at.Year() < 1970 || at.Year() > 2261 {
			return 0, fmt.Errorf("time %q is not between 1970 and 2262", text)
		}
		return at.UnixNano(), nil
	}
	return instant(text, nano)
}

// instant reads a number of seconds, or of other parts of 10^scale nanoseconds, since 1970.
func instant(text string, scale int) (int64, error) {
	n, err := decimal(text, scale)
	switch {
	case errors.Is(err, errHuge):
		return 0, fmt.Errorf("time %q is after 2262: write seconds since 1970, not thousandths", text)
	case errors.Is(err, errNotNumber):
		return 0, fmt.Errorf("%q is not a time: write it like 2026-01-31T12:00:00Z or as seconds since 1970", text)
	case err != nil:
		return 0, fmt.Errorf("time %q %w: write it like 2026-01-31T12:00:00Z or as seconds since 1970", text, err)
	}
	return n, nil
}
