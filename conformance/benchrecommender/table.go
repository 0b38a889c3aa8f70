package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/celvpa/celvpa/conformance/harness"
)

// row is a line of the table: a number of each recommender, and what is asked of celvpa's.
type row struct {
	name  string
	value func(result) float64
	text  func(float64) string
	part  float64 // of upstream's that celvpa may take; 0 = any
	limit float64 // that celvpa may take, of a large cluster with samples; 0 = any
}

func rows(results []result) []row {
	list := []row{
		{name: "cycle, mean", value: func(r result) float64 { return r.steps["total"] }, text: harness.Seconds, part: 1.0 / 10, limit: 60},
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
	return append(list,
		row{name: "cycle, longest", value: func(r result) float64 { return r.worst }, text: harness.Seconds, limit: 60},
		row{name: "first cycle", value: func(r result) float64 { return r.first }, text: harness.Seconds, limit: 60},
		row{name: "CPU a minute", value: func(r result) float64 { return r.cpu / r.window * 60 }, text: harness.Seconds, part: 1.0 / 2},
		row{name: "RSS, median", value: func(r result) float64 { return float64(r.rss) }, text: harness.Mebibytes, part: 2.0 / 3, limit: 1536 << 20},
		row{name: "RSS, highest", value: func(r result) float64 { return float64(r.peak) }, text: harness.Mebibytes, limit: 1536 << 20},
		row{name: "API writes a cycle", value: func(r result) float64 { return r.writes / float64(r.cycles) }, text: harness.Count},
		row{name: "API reads a cycle", value: func(r result) float64 { return r.reads / float64(r.cycles) }, text: harness.Count},
	)
}

// judged tells what is asked of celvpa's recommender in a row, and whether it keeps to it.
func (b *bench) judged(r row, ours, upstreams float64) (target, verdict string) {
	kept := true
	switch {
	case b.samples && r.limit > 0:
		target, kept = "≤ "+r.text(r.limit), ours <= r.limit
	case !b.samples && r.part > 0 && upstreams > 0:
		target, kept = fmt.Sprintf("≤ %.3f of upstream's", r.part), ours <= r.part*upstreams
	default:
		return "", ""
	}
	return target, harness.Kept(kept)
}

// print writes the table.
func (b *bench) print(to io.Writer, results []result) {
	samples := "no samples"
	if b.samples {
		samples = "samples of all in each cycle"
	}
	pods := b.vpas * b.replicas
	fmt.Fprintf(to, "\nrecommender with default flags: %d VPAs, %d pods, %d containers, %s; %d cycles after the first\n",
		b.vpas, pods, pods*b.containers, samples, b.cycles)
	var programs []string
	var ours []bool
	for _, r := range results {
		programs, ours = append(programs, r.name), append(ours, r.ours)
	}
	var lines []harness.Compared
	for _, row := range rows(results) {
		line := harness.Compared{Name: row.name, Text: row.text}
		for _, r := range results {
			line.Values = append(line.Values, row.value(r))
		}
		own, upstreams := line.Ours(ours)
		line.Target, line.Verdict = b.judged(row, own, upstreams)
		lines = append(lines, line)
	}
	_ = harness.WriteComparison(to, programs, ours, lines) // what cannot be printed is not read
}
