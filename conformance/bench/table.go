package main

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
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

//go:embed targets.yaml
var targetsFile []byte

// target is a bound for celvpa's value in a row of a table. Amounts are in seconds, bytes, or things; 6Gi
// may be written. A ratio is times what the program beside celvpa has; it is not judged without one.
type target struct {
	Metric   string             `json:"metric"`
	Min      *resource.Quantity `json:"min,omitempty"`
	Max      *resource.Quantity `json:"max,omitempty"`
	MinRatio *float64           `json:"minRatio,omitempty"`
	MaxRatio *float64           `json:"maxRatio,omitempty"`
}

// loadTargets reads targets.yaml: by benchmark and trial.
func loadTargets() (out map[string][]target, err error) {
	if err := yaml.UnmarshalStrict(targetsFile, &out); err != nil {
		return nil, fmt.Errorf("reading targets.yaml: %w", err)
	}
	return out, nil
}

const (
	met    = "met"
	missed = "MISSED"
)

// judge writes target and verdict into the rows. A target of a metric that was not measured is an
// error.
func (t *table) judge(targets []target) error {
	for _, want := range targets {
		r := t.row(want.Metric)
		if r == nil {
			return fmt.Errorf("no metric %q; known: %s", want.Metric, strings.Join(t.metrics(), "; "))
		}
		own, other := t.amounts(r)
		if math.IsNaN(own) || want.onlyRatios() && math.IsNaN(other) {
			continue
		}
		r.verdict = met
		bound := func(kept bool, format string, amount any) {
			r.target = strings.TrimPrefix(r.target+", "+fmt.Sprintf(format, amount), ", ")
			if !kept {
				r.verdict = missed
			}
		}
		if want.Min != nil {
			bound(own >= want.Min.AsApproximateFloat64(), "≥ %s", r.text(want.Min.AsApproximateFloat64()))
		}
		if want.Max != nil {
			bound(own <= want.Max.AsApproximateFloat64(), "≤ %s", r.text(want.Max.AsApproximateFloat64()))
		}
		if want.MinRatio != nil && !math.IsNaN(other) {
			bound(own >= *want.MinRatio*other, "≥ %.3g times", *want.MinRatio)
		}
		if want.MaxRatio != nil && !math.IsNaN(other) {
			bound(own <= *want.MaxRatio*other, "≤ %.3g times", *want.MaxRatio)
		}
	}
	return nil
}

func (t *target) onlyRatios() bool { return t.Min == nil && t.Max == nil }

// report prints tables and counts the targets that were missed.
type report struct{ missed int }

// add judges a table by the targets of a benchmark and trial, and prints it.
func (r *report) add(t *table, trial string) error {
	targets, err := loadTargets()
	if err != nil {
		return err
	}
	if err := t.judge(targets[trial]); err != nil {
		return fmt.Errorf("targets.yaml: %s: %w", trial, err)
	}
	for _, row := range t.rows {
		if row.verdict == missed {
			r.missed++
		}
	}
	return t.write(os.Stdout)
}

// result is an error if targets were missed that must be met.
func (r *report) result(check bool) error {
	if r.missed > 0 && check {
		return fmt.Errorf("%d targets missed", r.missed)
	}
	return nil
}
