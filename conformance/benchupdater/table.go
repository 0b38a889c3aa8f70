package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/celvpa/celvpa/conformance/harness"
)

// row is a line of the table: a number of each updater, and what is asked of celvpa's.
type row struct {
	name  string
	value func(result) float64
	text  func(float64) string
	judge func(own result, ours, upstreams float64) (target string, kept bool) // nil asks for nothing
}

func (b *bench) rows(t trial, results []result) []row {
	list := []row{
		{name: "pods in the first cycle", value: func(r result) float64 { return float64(r.changed) }, text: harness.Count, judge: b.all},
		{name: "most of one VPA", value: func(r result) float64 { return float64(r.most) }, text: harness.Count, judge: one},
		{name: "first to last " + t.what(), value: func(r result) float64 { return r.span }, text: harness.Seconds, judge: b.within(t.limit)},
		{name: "· to half of them", value: func(r result) float64 { return r.half }, text: secondsIfAny},
		{name: "cycle", value: func(r result) float64 { return r.steps["total"] }, text: harness.Seconds},
	}
	steps := map[string]bool{}
	for _, r := range results {
		for step := range r.steps {
			steps[step] = true
		}
	}
	delete(steps, "total")
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		list = append(list, row{name: "· " + step, value: func(r result) float64 { return r.steps[step] }, text: harness.Seconds})
	}
	list = append(list,
		row{name: "CPU to the end of it", value: func(r result) float64 { return r.cpu }, text: harness.Seconds},
		row{name: "· from the first " + t.what(), value: func(r result) float64 { return r.acting }, text: harness.Seconds},
		row{name: "RSS in it, median", value: func(r result) float64 { return float64(r.rss) }, text: harness.Mebibytes, judge: twoThirds},
		row{name: "RSS at its end", value: func(r result) float64 { return float64(r.end) }, text: harness.Mebibytes, judge: twoThirds},
		row{name: "· without the program's file", value: func(r result) float64 { return float64(r.own) }, text: harness.Mebibytes},
		row{name: "RSS, highest", value: func(r result) float64 { return float64(r.peak) }, text: harness.Mebibytes},
		row{name: "API: " + t.what() + "s asked for", value: func(r result) float64 { return r.asked }, text: harness.Count},
		row{name: "API: · time for each", value: func(r result) float64 { return r.answer }, text: harness.Seconds},
		row{name: "API: scales read", value: func(r result) float64 { return r.scales }, text: harness.Count},
		row{name: "API: events, at its end", value: func(r result) float64 { return float64(r.events) }, text: harness.Count},
	)
	if t.inPlace { // the targets are of evictions
		for i := range list {
			list[i].judge = nil
		}
	}
	return list
}

// secondsIfAny is for what may not have come to pass.
func secondsIfAny(v float64) string {
	if v == 0 {
		return "–"
	}
	return harness.Seconds(v)
}

// all asks for every change that is permitted: one for each VPA.
func (b *bench) all(_ result, ours, _ float64) (string, bool) {
	return fmt.Sprintf("all %d", b.Count), int(ours) == b.Count
}

// one asks that no VPA loses more than the pod that it may.
func one(_ result, ours, _ float64) (string, bool) { return "≤ 1", ours <= 1 }

// within asks for all changes in some time, which is known for so many VPAs only.
func (b *bench) within(limit float64) func(result, float64, float64) (string, bool) {
	if b.Count != vpas {
		return nil
	}
	return func(own result, ours, _ float64) (string, bool) {
		return fmt.Sprintf("≤ %.0f s for all", limit), ours <= limit && own.changed == b.Count
	}
}

func twoThirds(_ result, ours, upstreams float64) (string, bool) {
	if upstreams == 0 {
		return "", false
	}
	return "≤ 2/3 of upstream's", 3*ours <= 2*upstreams
}

// print writes the table of a trial.
func (b *bench) print(to io.Writer, t trial, results []result) {
	fmt.Fprintf(to, "\nupdater %s: %d VPAs, %d pods out of range, of which one %s a VPA is permitted in a cycle\n", t.text, b.Count, b.Pods(), t.what())
	var programs []string
	var ours []bool
	own := -1
	for i, r := range results {
		programs, ours = append(programs, r.Name), append(ours, r.Ours)
		if r.Ours {
			own = i
		}
	}
	var lines []harness.Compared
	for _, row := range b.rows(t, results) {
		line := harness.Compared{Name: row.name, Text: row.text}
		for _, r := range results {
			line.Values = append(line.Values, row.value(r))
		}
		if row.judge != nil && own >= 0 {
			value, upstreams := line.Ours(ours)
			if target, kept := row.judge(results[own], value, upstreams); target != "" {
				line.Target, line.Verdict = target, harness.Kept(kept)
			}
		}
		lines = append(lines, line)
	}
	_ = harness.WriteComparison(to, programs, ours, lines) // what cannot be printed is not read
}
