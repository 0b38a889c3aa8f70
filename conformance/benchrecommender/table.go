package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Limits of a cluster of any size: a cycle must fit into --recommender-interval, and 1.5 GiB is for 10,000 VPAs.
const (
	maxCycle = 60.0
	maxRSS   = 1536 << 20
)

// row is a line of the table: a number of each recommender, and how they compare.
type row struct {
	name   string
	value  func(result) float64
	text   func(float64) string
	atMost float64 // the part of upstream's that celvpa may take; 0 = any
	limit  float64 // that celvpa may take; 0 = any
}

func rows(results []result) []row {
	list := []row{
		{name: "cycle, mean", value: func(r result) float64 { return r.steps["total"] }, text: seconds, atMost: 1.0 / 10, limit: maxCycle},
	}
	steps := map[string]bool{}
	for _, r := range results {
		for step := range r.steps {
			steps[step] = true
		}
	}
	delete(steps, "total")
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		list = append(list, row{name: "  " + step, value: func(r result) float64 { return r.steps[step] }, text: seconds})
	}
	return append(list,
		row{name: "cycle, longest", value: func(r result) float64 { return r.worst }, text: seconds, limit: maxCycle},
		row{name: "first cycle", value: func(r result) float64 { return r.first }, text: seconds},
		row{name: "CPU a minute", value: func(r result) float64 { return r.cpu / r.window * 60 }, text: seconds, atMost: 1.0 / 2},
		row{name: "RSS, median", value: func(r result) float64 { return float64(r.rss) }, text: bytes, atMost: 2.0 / 3, limit: maxRSS},
		row{name: "RSS, highest", value: func(r result) float64 { return float64(r.peak) }, text: bytes, limit: maxRSS},
		row{name: "API writes a cycle", value: func(r result) float64 { return r.writes / float64(r.cycles) }, text: count},
		row{name: "API reads a cycle", value: func(r result) float64 { return r.reads / float64(r.cycles) }, text: count},
	)
}

// print writes the table. The last recommender is measured by the first, where there are two.
func (b *bench) print(to io.Writer, results []result) {
	samples := "no samples"
	if b.samples {
		samples = "samples each cycle"
	}
	fmt.Fprintf(to, "\nrecommender: %d VPAs, %d pods, %d containers, %s; %d cycles after the first, default flags\n",
		b.vpas, b.vpas*b.replicas, b.vpas*b.replicas*b.containers, samples, b.cycles)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")+"\t") }
	heads := []string{""}
	for _, r := range results {
		heads = append(heads, r.name)
	}
	two := len(results) == 2
	if two {
		heads = append(heads, "part")
	}
	line(append(heads, "target", "")...)
	ours := results[len(results)-1]
	for _, row := range rows(results) {
		cells := []string{fmt.Sprintf("%-20s", row.name)}
		for _, r := range results {
			cells = append(cells, row.text(row.value(r)))
		}
		var targets []string
		met := true
		if two {
			part := row.value(ours) / row.value(results[0])
			if row.value(results[0]) == 0 {
				cells = append(cells, "")
			} else {
				cells = append(cells, fmt.Sprintf("%.3f", part))
				if row.atMost > 0 {
					targets = append(targets, fmt.Sprintf("≤ %.3f", row.atMost))
					met = met && part <= row.atMost
				}
			}
		}
		if row.limit > 0 {
			targets = append(targets, "≤ "+row.text(row.limit))
			met = met && row.value(ours) <= row.limit
		}
		verdict := ""
		if len(targets) > 0 {
			verdict = map[bool]string{true: "met", false: "MISSED"}[met]
		}
		line(append(cells, strings.Join(targets, ", "), verdict)...)
	}
	table.Flush()
}

func seconds(v float64) string { return fmt.Sprintf("%.3f s", v) }
func bytes(v float64) string   { return mebibytes(uint64(v)) }
func count(v float64) string   { return fmt.Sprintf("%.0f", v) }

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
