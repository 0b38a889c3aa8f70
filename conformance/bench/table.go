package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// value is one number that a measurement found.
type value struct {
	name   string
	unit   unit
	amount float64
}

// unit prints an amount.
type unit func(float64) string

func seconds(v float64) string      { return fmt.Sprintf("%.3f s", v) }
func milliseconds(v float64) string { return fmt.Sprintf("%.2f ms", v*1000) } // of seconds
func mebibytes(v float64) string    { return fmt.Sprintf("%.1f MiB", v/(1<<20)) }
func count(v float64) string        { return fmt.Sprintf("%.0f", v) }
func percent(v float64) string      { return fmt.Sprintf("%.0f%%", v*100) }

// table sets programs side by side.
type table struct {
	title    string
	programs []program
	rows     []*row
}

type row struct {
	value                     // without an amount
	of              []float64 // each program's median; NaN where a program has none
	target, verdict string
}

// newTable takes the medians of the values of all rounds of each program. Rows are in the order in
// which they were measured.
func newTable(title string, programs []program, rounds [][][]value) *table {
	t := &table{title: title, programs: programs}
	for i := range programs {
		found := map[*row][]float64{}
		for _, values := range rounds[i] {
			at := 0 // where a row that no program had before goes
			for _, v := range values {
				r := t.row(v.name)
				if r == nil {
					r = &row{value: v, of: make([]float64, len(programs))}
					for j := range r.of {
						r.of[j] = math.NaN()
					}
					t.rows = slices.Insert(t.rows, at, r)
				}
				at = slices.Index(t.rows, r) + 1
				found[r] = append(found[r], v.amount)
			}
		}
		for r, amounts := range found {
			r.of[i] = median(amounts)
		}
	}
	return t
}

// metrics are the names of the rows.
func (t *table) metrics() (out []string) {
	for _, r := range t.rows {
		out = append(out, r.name)
	}
	return out
}

func (t *table) row(name string) *row {
	for _, r := range t.rows {
		if r.name == name {
			return r
		}
	}
	return nil
}

// amounts are celvpa's in a row, and that of the program beside it; NaN where there is none.
func (t *table) amounts(r *row) (own, other float64) {
	own, other = math.NaN(), math.NaN()
	for i, p := range t.programs {
		if p.ours {
			own = r.of[i]
		} else {
			other = r.of[i]
		}
	}
	return own, other
}

// write prints the table.
func (t *table) write(to io.Writer) error {
	fmt.Fprintf(to, "\n%s\n", t.title)
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(out, strings.Join(cells, "\t")) }
	head := []string{""}
	for _, p := range t.programs {
		head = append(head, fmt.Sprintf("%14s", p.name))
	}
	if len(t.programs) > 1 {
		head = append(head, fmt.Sprintf("%8s", "ratio"))
	}
	line(append(head, "target", "")...)
	for _, r := range t.rows {
		cells := []string{r.name}
		for _, amount := range r.of {
			cells = append(cells, fmt.Sprintf("%14s", r.text(amount)))
		}
		if len(t.programs) > 1 {
			ratio := ""
			if own, other := t.amounts(r); own > 0 && other > 0 {
				ratio = fmt.Sprintf("%8.3f", own/other)
			}
			cells = append(cells, ratio)
		}
		line(append(cells, r.target, r.verdict)...)
	}
	return out.Flush()
}

func (r *row) text(amount float64) string {
	if math.IsNaN(amount) {
		return "–"
	}
	return r.unit(amount)
}

// median is the middle of values, or the mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[len(sorted)/2] + sorted[(len(sorted)-1)/2]) / 2
}
