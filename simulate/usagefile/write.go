package usagefile

import (
	"encoding/csv"
	"strconv"
	"strings"
)

// Header is the first line of a CSV file that AppendTime, RowEnd and AppendAmount make.
const Header = "timestamp,namespace,pod,container,resource,value\n"

// AppendTime begins a row with its time, in unix nanoseconds, as seconds.
func AppendTime(row []byte, at int64) []byte {
	return appendScaled(row, at, nano)
}

// RowEnd is what stands between the time and the amount in each row of a series.
func RowEnd(of Series) []byte {
	var out strings.Builder
	w := csv.NewWriter(&out)
	resource := ""
	for name, kind := range kinds {
		if kind == of.Kind {
			resource = name
		}
	}
	_ = w.Write([]string{"", of.Pod.Namespace, of.Pod.Name, of.Container, resource, ""}) // a Builder takes all
	w.Flush()
	return []byte(strings.TrimSuffix(out.String(), "\n"))
}

// AppendAmount ends a row: cores or bytes.
func AppendAmount(row []byte, kind Kind, amount int64) []byte {
	if kind == CPU {
		return appendScaled(row, amount, milli)
	}
	return strconv.AppendInt(row, amount, 10)
}

// appendScaled appends a number that is not below 0, with so many of its digits after the point,
// without the zeros at its end.
func appendScaled(to []byte, n int64, scale int) []byte {
	unit := int64(1)
	for range scale {
		unit *= 10
	}
	to = strconv.AppendInt(to, n/unit, 10)
	rest := n % unit
	if rest == 0 {
		return to
	}
	digits := strconv.FormatInt(unit+rest, 10)[1:]
	return append(append(to, '.'), strings.TrimRight(digits, "0")...)
}
