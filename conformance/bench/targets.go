package main

import (
	_ "embed"
	"fmt"
	"math"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

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
