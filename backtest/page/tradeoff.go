package page

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/markup"
)

const (
	plotHeight = 260 // pixels of a plot
	plotTop    = 14  // pixels above its largest value
	plotted    = 200 // most policies of a plot
)

// axis is a measure of a policy.
type axis struct {
	name, unit string
	of         func(*backtest.Fleet) float64
	text       func(float64) string
}

// tradeoffs draws what policies save against what that costs.
func tradeoffs(w *writer) {
	w.Put("<p>Each point is a policy, by its number in the table above, or several that are close together; left is cheaper, down is safer. The line joins those that no other one beats in this plot. <em>hindsight</em> knows the future and cannot be had.</p>\n<div class=\"charts\">\n")
	cpu := axis{"CPU requested", "core-hours", func(f *backtest.Fleet) float64 { return f.CPU.RequestedCoreHours }, count64}
	memory := axis{"memory requested", "GiB-hours", func(f *backtest.Fleet) float64 { return f.Memory.RequestedGiBHours }, count64}
	w.tradeoff("CPU", cpu, axis{"time over the CPU request", "", func(f *backtest.Fleet) float64 { return f.CPU.OverRequestShare }, exactShare})
	w.tradeoff("Memory", memory, axis{"OOM kills", "", func(f *backtest.Fleet) float64 { return float64(f.OOMs) }, count64})
	w.tradeoff("Slack of CPU", axis{"CPU slack", "", func(f *backtest.Fleet) float64 { return f.CPU.SlackShare }, exactShare},
		axis{"throttled", "core-seconds", func(f *backtest.Fleet) float64 { return f.CPU.ThrottledCoreSeconds }, count64})
	w.tradeoff("Slack of memory", axis{"memory slack", "", func(f *backtest.Fleet) float64 { return f.Memory.SlackShare }, exactShare},
		axis{"time over the memory request", "", func(f *backtest.Fleet) float64 { return f.Memory.OverRequestShare }, exactShare})
	w.Put("</div>\n")
}

// spot is a policy in a plot.
type spot struct {
	policy int
	x, y   float64
}

// tradeoff draws one plot. The fleet table has its numbers in text.
func (w *writer) tradeoff(title string, x, y axis) {
	var spots []spot
	for i := range w.r.Policies {
		p := &w.r.Policies[i]
		one := spot{i, x.of(&p.Fleet), y.of(&p.Fleet)}
		if !math.IsNaN(one.x) && !math.IsNaN(one.y) && len(spots) < plotted {
			spots = append(spots, one)
		}
	}
	var right, top float64
	for _, s := range spots {
		right, top = max(right, s.x), max(top, s.y)
	}
	if right == 0 {
		return
	}
	if top == 0 {
		w.Put("<p class=\"none\">{}: 0 with each policy, so there is no plot of it.</p>\n", y.name)
		return
	}
	right, top = right*1.08, top*1.08
	w.Put("<figure class=\"chart\"><figcaption>{} <small>{}{} against {}{}</small></figcaption>\n", title, y.name, inUnit(y.unit), x.name, inUnit(x.unit))
	w.Put("<div class=\"time\"><svg class=\"y\" width=\"64\" height=\"300\" aria-hidden=\"true\">")
	for _, t := range even(top) {
		w.Put("<text x=\"58\" y=\"{}\" text-anchor=\"end\">{}</text>", markup.Pixel(height(t, top)+4), y.text(t))
	}
	w.Put("<text x=\"58\" y=\"{}\" text-anchor=\"end\">0</text></svg>", strconv.Itoa(plotHeight+4))
	w.Put("<svg class=\"plot\" width=\"100%\" height=\"300\">")
	for _, t := range even(top) {
		at := markup.Pixel(height(t, top))
		w.Put("<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{}\" y2=\"{}\"/>", at, at)
	}
	w.Put("<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"260\" y2=\"260\"/>")
	for _, t := range even(right) {
		at := markup.Percent(t / right)
		w.Put("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"260\" y2=\"264\"/><text x=\"{}\" y=\"278\" text-anchor=\"middle\">{}</text>", at, at, at, x.text(t))
	}
	w.Put("<text x=\"100%\" y=\"296\" text-anchor=\"end\">{}{} →</text>", x.name, inUnit(x.unit))
	w.front(spots, right, top)
	for _, group := range near(spots, right, top) {
		w.spots(group, right, top, x, y)
	}
	w.Put("</svg></div></figure>\n")
}

func inUnit(unit string) string {
	if unit == "" {
		return ""
	}
	return " in " + unit
}

func height(value, top float64) float64 {
	return plotHeight - value/top*(plotHeight-plotTop)
}

// even are three to five round numbers above zero.
func even(top float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(top)))
	for _, part := range []float64{0.1, 0.2, 0.5, 1, 2} {
		if top/(step*part) <= 5 {
			step *= part
			break
		}
	}
	var out []float64
	for n := 1; float64(n)*step <= top && n <= 6; n++ {
		out = append(out, float64(n)*step)
	}
	return out
}

// front joins the policies of which none is lower and more to the left.
func (w *writer) front(spots []spot, right, top float64) {
	list := slices.DeleteFunc(slices.Clone(spots), func(s spot) bool { return w.r.Policies[s.policy].Name == backtest.Hindsight })
	slices.SortStableFunc(list, func(a, b spot) int {
		switch {
		case a.x < b.x, a.x == b.x && a.y < b.y:
			return -1
		case a.x == b.x && a.y == b.y:
			return 0
		}
		return 1
	})
	var last *spot
	for i := range list {
		s := &list[i]
		if last != nil && s.y >= last.y {
			continue
		}
		if last != nil {
			at, from, y := markup.Percent(s.x/right), markup.Percent(last.x/right), markup.Pixel(height(last.y, top))
			w.Put("<line class=\"front\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", from, at, y, y)
			w.Put("<line class=\"front\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", at, at, y, markup.Pixel(height(s.y, top)))
		}
		last = s
	}
}

// closeBy is how near points may be that are drawn as one: parts of the width, and pixels.
const (
	closeByX = 0.03
	closeByY = 16.0
)

// near groups the points that would cover each other, by the first of each group.
func near(spots []spot, right, top float64) (out [][]spot) {
	for _, s := range spots {
		i := slices.IndexFunc(out, func(group []spot) bool {
			return math.Abs(group[0].x-s.x)/right < closeByX && math.Abs(height(group[0].y, top)-height(s.y, top)) < closeByY
		})
		if i < 0 {
			i, out = len(out), append(out, nil)
		}
		out[i] = append(out[i], s)
	}
	return out
}

// spots draws a point for policies that are close together. It leads to the first.
func (w *writer) spots(group []spot, right, top float64, x, y axis) {
	class, first := "baseline", group[0]
	for _, s := range group {
		switch p := &w.r.Policies[s.policy]; {
		case p == w.main:
			class = "main"
		case class == "baseline" && !isBaseline(p) && p.Name != backtest.Upstream:
			class = "candidate"
		}
	}
	w.Put("<a href=\"#policy-{}\"><title>", strconv.Itoa(first.policy+1))
	for i, s := range group {
		p := &w.r.Policies[s.policy]
		label := p.Name
		if text := about(p); text != "" {
			label += " " + text
		}
		if i > 0 {
			w.Put("; ")
		}
		w.Put("{} {}: {} {}, {} {}", strconv.Itoa(s.policy+1), label, x.text(s.x), x.name, y.text(s.y), y.name)
	}
	text := numbers(group)
	half := max(11, 5+4*utf8.RuneCountInString(text))
	w.Put("</title><svg class=\"spot\" x=\"{}\" y=\"{}\"><rect class=\"{}\" x=\"-{}\" y=\"-11\" width=\"{}\" height=\"22\" rx=\"11\"/><text class=\"in\" aria-hidden=\"true\" x=\"0\" y=\"4\" text-anchor=\"middle\">{}</text></svg></a>",
		markup.Percent(first.x/right), markup.Pixel(height(first.y, top)), class, strconv.Itoa(half), strconv.Itoa(2*half), text)
}

// mostNumbers is how long the text in a point may be.
const mostNumbers = 9

// numbers are those of policies, such as 3–5, 7.
func numbers(group []spot) string {
	text := ""
	for i := 0; i < len(group); {
		last := i
		for last+1 < len(group) && group[last+1].policy == group[last].policy+1 {
			last++
		}
		part := strconv.Itoa(group[i].policy + 1)
		if last > i {
			part += map[bool]string{true: ", ", false: "–"}[last == i+1] + strconv.Itoa(group[last].policy+1)
		}
		if i > 0 {
			part = ", " + part
		}
		if utf8.RuneCountInString(text+part) > mostNumbers {
			return text + "…"
		}
		text, i = text+part, last+1
	}
	return text
}
