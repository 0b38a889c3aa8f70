package usagefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// limits bound what is held of files whose parts may have any length.
type limits struct {
	line   int   // bytes of a row of CSV
	labels int   // bytes of the labels of a series
	value  int64 // memory of a value of JSON, such as one series with all its points
	memory int64 // of what is kept of all files
}

// shippedLimits leave room for a series of a year at two points a minute, and for 100 million rows.
var shippedLimits = limits{line: 64 << 10, labels: 64 << 10, value: 256 << 20, memory: 4 << 30}

const (
	bytesPerSeries = 500 // that are kept of it besides its labels, by estimate
	bytesPerRow    = 40  // which are sorted
)

// keep counts memory that stays until all files are read.
func (r *reading) keep(bytes int) error {
	if r.kept += int64(bytes); r.kept > r.limits.memory {
		return fmt.Errorf("usage from %s takes more than %s of memory, with what was read before: read fewer pods, or a shorter time", r.file, size(r.limits.memory))
	}
	return nil
}

// size is a number of bytes in words.
func size(bytes int64) string {
	for _, unit := range []string{"bytes", "KiB", "MiB"} {
		if bytes < 1<<10 {
			return fmt.Sprintf("%d %s", bytes, unit)
		}
		bytes >>= 10
	}
	return fmt.Sprintf("%d GiB", bytes)
}

// valueReader bounds the memory that one value of JSON takes.
type valueReader struct {
	in    io.Reader
	limit int64
	left  int64
}

// next begins a value.
func (v *valueReader) next() { v.left = v.limit }

// errLongValue is what a value ends in that takes too much memory.
var errLongValue = errors.New("one value, such as a series,")

// Read implements io.Reader.
func (v *valueReader) Read(into []byte) (int, error) {
	if v.left <= 0 {
		return 0, fmt.Errorf("%w takes more than %s of memory: ask for a shorter time, or for fewer points", errLongValue, size(v.limit))
	}
	n, err := v.in.Read(into)
	v.left -= int64(2*n + 100*(bytes.Count(into[:n], []byte(","))+bytes.Count(into[:n], []byte(":"))))
	return n, err
}

// longestText is how much is quoted of a file, in bytes.
const longestText = 2000

// short is a text that may hold parts of a file, cut.
func short(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:longestText], "")) + "…"
}
