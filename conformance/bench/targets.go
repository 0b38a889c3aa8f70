package main

import (
	_ "embed"
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

//go:embed targets.yaml
var targetsFile []byte

// bound is what a metric of celvpa's must be. Amounts are in seconds, bytes, or things; 1536Mi may
// be written.
type bound struct {
	Min *resource.Quantity `json:"min,omitempty"`
	Max *resource.Quantity `json:"max,omitempty"`
	// Times what the program beside celvpa has; not judged without one.
	MinRatio *float64 `json:"minRatio,omitempty"`
	MaxRatio *float64 `json:"maxRatio,omitempty"`
}

// target is a bound for a row of a table.
type target struct {
	Metric string `json:"metric"`
	bound  `json:",inline"`
	// Provided must hold for all programs, or the target is not judged.
	Provided *struct {
		Metric string             `json:"metric"`
		Min    *resource.Quantity `json:"min,omitempty"`
		Max    *resource.Quantity `json:"max,omitempty"`
	} `json:"provided,omitempty"`
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
			return t.unknown(want.Metric)
		}
		own, other := t.amounts(r)
		text, kept, judged := want.check(r, own, other)
		if !judged {
			continue
		}
		r.target, r.verdict = text, missed
		if kept {
			r.verdict = met
		}
		if want.Provided == nil {
			continue
		}
		of := t.row(want.Provided.Metric)
		if of == nil {
			return t.unknown(want.Provided.Metric)
		}
		for i, p := range t.programs {
			condition := bound{Min: want.Provided.Min, Max: want.Provided.Max}
			if text, kept, _ := condition.check(of, of.of[i], math.NaN()); !kept {
				r.verdict = fmt.Sprintf("not judged: %s of %s is %s, not %s", of.name, p.name, of.text(of.of[i]), text)
			}
		}
	}
	return nil
}

func (t *table) unknown(metric string) error {
	var known []string
	for _, r := range t.rows {
		known = append(known, r.name)
	}
	return fmt.Errorf("no metric %q; known: %s", metric, strings.Join(known, "; "))
}

// check reports whether an amount keeps the bound. It is not judged without the amounts that the
// bound needs.
func (b bound) check(r *row, own, other float64) (text string, kept, judged bool) {
	type side struct {
		text string
		kept bool
	}
	var sides []side
	if b.Min != nil {
		sides = append(sides, side{"≥ " + r.text(b.Min.AsApproximateFloat64()), own >= b.Min.AsApproximateFloat64()})
	}
	if b.Max != nil {
		sides = append(sides, side{"≤ " + r.text(b.Max.AsApproximateFloat64()), own <= b.Max.AsApproximateFloat64()})
	}
	if b.MinRatio != nil && !math.IsNaN(other) {
		sides = append(sides, side{fmt.Sprintf("≥ %.3g times", *b.MinRatio), own >= *b.MinRatio*other})
	}
	if b.MaxRatio != nil && !math.IsNaN(other) {
		sides = append(sides, side{fmt.Sprintf("≤ %.3g times", *b.MaxRatio), own <= *b.MaxRatio*other})
	}
	var texts []string
	kept = true
	for _, s := range sides {
		texts, kept = append(texts, s.text), kept && s.kept
	}
	return strings.Join(texts, ", "), kept, len(sides) > 0 && !math.IsNaN(own)
}

// missed counts the targets that celvpa missed.
func (t *table) missed() (n int) {
	for _, r := range t.rows {
		if r.verdict == missed {
			n++
		}
	}
	return n
}
