package harness

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Compared is a line of a table that sets measured programs beside each other.
type Compared struct {
	Name   string
	Values []float64 // one for each program
	Text   func(float64) string
	// Target says what is asked of celvpa, Verdict whether it keeps to it; empty where nothing is.
	Target, Verdict string
}

// Ours are celvpa's value and that of the other program; 0 where there is none. ours tells which programs are celvpa.
func (c Compared) Ours(ours []bool) (own, other float64) {
	for i, v := range c.Values {
		if ours[i] {
			own = v
		} else {
			other = v
		}
	}
	return own, other
}

// WriteComparison writes a table with a column for each program and, where there are two, celvpa's part of the other's. ours
// tells which programs are celvpa.
func WriteComparison(to io.Writer, programs []string, ours []bool, rows []Compared) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")) }
	heads := []string{""}
	for _, name := range programs {
		heads = append(heads, fmt.Sprintf("%14s", name))
	}
	if len(programs) == 2 {
		heads = append(heads, fmt.Sprintf("%8s", "part"))
	}
	line(append(heads, "target", "")...)
	for _, row := range rows {
		cells := []string{row.Name}
		for _, v := range row.Values {
			cells = append(cells, fmt.Sprintf("%14s", row.Text(v)))
		}
		if len(programs) == 2 {
			part := ""
			if own, other := row.Ours(ours); own > 0 && other > 0 {
				part = fmt.Sprintf("%8.3f", own/other)
			}
			cells = append(cells, part)
		}
		line(append(cells, row.Target, row.Verdict)...)
	}
	return table.Flush()
}

// Seconds, Mebibytes and Count are texts of values: of seconds, of bytes, and of things.
func Seconds(v float64) string   { return fmt.Sprintf("%.3f s", v) }
func Mebibytes(v float64) string { return fmt.Sprintf("%.1f MiB", v/(1<<20)) }
func Count(v float64) string     { return fmt.Sprintf("%.0f", v) }

// Kept is a verdict.
func Kept(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

// Median is the middle one of values; 0 of none.
func Median(values []uint64) float64 {
	if len(values) == 0 {
		return 0
	}
	return float64(slices.Sorted(slices.Values(values))[len(values)/2])
}
