package main

import (
	"fmt"
	"io"
	"time"

	"github.com/celvpa/celvpa/conformance/harness"
)

// result is what came of all turns of one program.
type result struct {
	harness.Program
	overHTTP1, overHTTP2 shot // the best turn
	rss                  []uint64
	peak                 uint64
}

func (r *result) add(t turn) {
	r.Program = t.Program
	r.overHTTP1, r.overHTTP2 = better(r.overHTTP1, t.overHTTP1), better(r.overHTTP2, t.overHTTP2)
	r.rss = append(append(r.rss, t.overHTTP1.rss...), t.overHTTP2.rss...)
	r.peak = max(r.peak, t.peak)
}

func better(a, b shot) shot {
	if a.perSecond >= b.perSecond {
		return a
	}
	return b
}

func (r *result) medianRSS() float64 { return harness.Median(r.rss) }

// row is a line of the table: a number of each program, and what is asked of celvpa's.
type row struct {
	name  string
	value func(*result) float64
	text  func(float64) string
	least float64             // times upstream's that celvpa must reach; 0 = any
	most  float64             // times upstream's that celvpa may take; 0 = any
	of    func(*result) *shot // what it was measured in; nil where it does not matter how much of its core a server had
}

func rows() (list []row) {
	for _, protocol := range []struct {
		name string
		of   func(*result) *shot
	}{
		{"HTTP/1.1", func(r *result) *shot { return &r.overHTTP1 }},
		{"HTTP/2", func(r *result) *shot { return &r.overHTTP2 }},
	} {
		of, title := protocol.of, protocol.name+": "
		list = append(list,
			row{name: title + "reviews a second", value: func(r *result) float64 { return of(r).perSecond }, text: harness.Count, least: 2, of: of},
			row{name: title + "p50", value: func(r *result) float64 { return float64(of(r).p50) }, text: duration},
			row{name: title + "p99", value: func(r *result) float64 { return float64(of(r).p99) }, text: duration, most: 0.5, of: of},
			row{name: title + "longest", value: func(r *result) float64 { return float64(of(r).max) }, text: duration},
			row{name: title + "CPU for 1000 reviews", value: func(r *result) float64 { return of(r).cpu }, text: func(v float64) string { return fmt.Sprintf("%.3f s", v) }},
			row{name: title + "· the server's core", value: func(r *result) float64 { return of(r).server }, text: percent},
			row{name: title + "· what loads it", value: func(r *result) float64 { return of(r).own }, text: percent})
	}
	return append(list,
		row{name: "RSS under load, median", value: (*result).medianRSS, text: harness.Mebibytes},
		row{name: "RSS, highest", value: func(r *result) float64 { return float64(r.peak) }, text: harness.Mebibytes})
}

// judged tells what is asked of celvpa in a row, and whether it keeps to it.
func (r row) judged(ours, upstreams float64) (target, verdict string) {
	kept := true
	switch {
	case upstreams == 0 || ours == 0:
		return "", ""
	case r.least > 0:
		target, kept = fmt.Sprintf("≥ %.1f of upstream's", r.least), ours >= r.least*upstreams
	case r.most > 0:
		target, kept = fmt.Sprintf("≤ %.1f of upstream's", r.most), ours <= r.most*upstreams
	default:
		return "", ""
	}
	return target, harness.Kept(kept)
}

// print writes the table.
func (b *bench) print(to io.Writer, results []result, same string) {
	fmt.Fprintf(to, "\nadmission controller with default flags, over TLS: %d VPAs in %d namespaces, reviews of %d bytes, %d at a time "+
		"(over HTTP/2 on %d connections); the best of %d turns of %s\n",
		b.vpas, b.namespaces, b.meanSize(), b.connections, b.multiplexed, b.turns, b.window)
	fmt.Fprintf(to, "the server has %s, what loads it has %s\n", b.cores.serverText, b.cores.ownText)
	var programs []string
	var ours []bool
	for _, r := range results {
		programs, ours = append(programs, r.Name), append(ours, r.Ours)
	}
	var lines []harness.Compared
	for _, row := range rows() {
		line := harness.Compared{Name: row.name, Text: row.text}
		for i := range results {
			line.Values = append(line.Values, row.value(&results[i]))
		}
		line.Target, line.Verdict = row.judged(line.Ours(ours))
		for i := range results {
			if line.Verdict != "" && row.of != nil && row.of(&results[i]).server < ownCore {
				line.Verdict = "not judged: a server did not have its core"
			}
		}
		lines = append(lines, line)
	}
	_ = harness.WriteComparison(to, programs, ours, lines) // what cannot be printed is not read
	if same != "" {
		fmt.Fprintln(to, same)
	}
	for _, r := range results {
		b.warn(to, r.Name, "HTTP/1.1", r.overHTTP1)
		b.warn(to, r.Name, "HTTP/2", r.overHTTP2)
	}
}

// ownCore is the part of its core that a server must have had: with less, others decided how fast it was.
const ownCore = 0.9

// warn tells where it was not the server that was measured.
func (b *bench) warn(to io.Writer, program, protocol string, s shot) {
	switch {
	case s.own > 0.9*b.cores.own:
		fmt.Fprintf(to, "%s over %s: what loads it was at its limit, so the server could answer more\n", program, protocol)
	case s.server < ownCore:
		fmt.Fprintf(to, "%s over %s: the server had %.0f%% of a core; where others use it too, measure again\n", program, protocol, s.server*100)
	}
}

func percent(v float64) string            { return fmt.Sprintf("%.0f%%", v*100) }
func duration(v float64) string           { return milliseconds(time.Duration(v)) }
func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }
