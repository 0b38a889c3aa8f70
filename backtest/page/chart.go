package page

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/markup"
)

const (
	chartHeight = 170 // pixels of a chart over time, above its axis
	lane        = 18  // pixels under it for what happened
	across      = 1000
	marks       = 80 // most of a lane
)

// Points is how many steps of a series a chart shows; longer ones are thinned.
const Points = 240

// resource is one of the two of a container.
type resource struct {
	name   string
	lines  *backtest.Lines
	binary bool
	change func(*backtest.Event) *backtest.Change
}

func (r *resource) text(value float64) string {
	if r.binary {
		return bytes(value)
	}
	return cores(value)
}

// curve is one line of a chart.
type curve struct {
	class  markup.Text
	name   string
	values []float64
}

// chart draws usage against request, limit, target and bounds, with what happened under it.
func (w *writer) chart(p *backtest.Policy, c *backtest.Container, r resource) {
	s := c.Series
	every := max(1, (s.Steps+w.points-1)/w.points)
	usage, peak := thinned(r.lines.Usage, every, mean), thinned(r.lines.UsageMax, every, largest)
	request, limit, target := thinned(r.lines.Request, every, last), thinned(r.lines.Limit, every, last), thinned(r.lines.Target, every, last)
	lower, upper := thinned(r.lines.Lower, every, last), thinned(r.lines.Upper, every, last)
	inner := max(top(usage), top(peak), top(request), top(target))
	most := inner
	for _, outer := range [][]float64{limit, upper} { // a far limit or a wide bound would flatten all else
		for _, value := range outer {
			if value <= 2.5*inner {
				most = max(most, value)
			}
		}
	}
	if most == 0 {
		return
	}
	most *= 1.05
	from := w.r.Window.From
	to := from.Add(time.Duration(s.Steps) * time.Duration(s.StepSeconds) * time.Second)
	w.Put("<figure class=\"chart\"><figcaption>{} <small>policy {}, {}</small></figcaption>\n", strings.ToUpper(r.name[:1])+r.name[1:], p.Name, markup.Period(from, to))
	w.Put("<div class=\"time\" role=\"img\" aria-label=\"{}\">", described(p, c, r))
	w.Put("<svg class=\"y\" width=\"56\" height=\"208\">")
	for _, t := range markup.Ticks(most, r.binary) {
		w.Put("<text x=\"50\" y=\"{}\" text-anchor=\"end\">{}</text>", markup.Pixel(chartHeight*(1-t.At)+4), t.Label)
	}
	w.Put("</svg><svg width=\"100%\" height=\"208\">")
	for _, t := range markup.Ticks(most, r.binary) {
		y := markup.Pixel(chartHeight * (1 - t.At))
		w.Put("<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{}\" y2=\"{}\"/>", y, y)
	}
	w.Put("<svg width=\"100%\" height=\"170\" viewBox=\"0 0 1000 170\" preserveAspectRatio=\"none\">")
	w.Path("band", area(lower, upper, most))
	w.Path("area", area(nil, usage, most))
	curves := []curve{{"peak", "largest use of a pod", peak}, {"limit", "limit", limit}, {"request", "request", request}, {"target", "target", target}}
	for _, one := range curves {
		w.Path(one.class, steps(one.values, most))
	}
	w.Put("</svg><line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"170\" y2=\"170\"/>")
	w.happened(s, r, from, to)
	w.Times(from, to, chartHeight+lane+14)
	w.Put("</svg></div>\n<ul class=\"legend\" aria-hidden=\"true\"><li><svg width=\"24\" height=\"10\"><rect class=\"area\" width=\"24\" height=\"10\"/></svg> mean use</li>")
	for _, one := range curves {
		if top(one.values) > 0 {
			w.Put("<li><svg width=\"24\" height=\"10\"><line class=\"{}\" x1=\"0\" x2=\"24\" y1=\"5\" y2=\"5\"/></svg> {}</li>", string(one.class), one.name)
		}
	}
	if top(upper) > 0 {
		w.Put("<li><svg width=\"24\" height=\"10\"><rect class=\"band\" width=\"24\" height=\"10\"/></svg> bounds</li>")
	}
	w.legend(s, r)
	w.Put("</ul></figure>\n")
}

// thinned is a line with a point for so many.
func thinned(line backtest.Line, every int, of func([]float64) float64) []float64 {
	out := make([]float64, 0, len(line)/every+1)
	for from := 0; from < len(line); from += every {
		out = append(out, of(line[from:min(from+every, len(line))]))
	}
	return out
}

func mean(of []float64) float64 {
	sum, n := 0.0, 0
	for _, value := range of {
		if !math.IsNaN(value) {
			sum, n = sum+value, n+1
		}
	}
	return sum / float64(n) // unknown without any
}

func largest(of []float64) float64 {
	out := math.NaN()
	for _, value := range of {
		if !(value <= out) && !math.IsNaN(value) {
			out = value
		}
	}
	return out
}

func last(of []float64) float64 { return of[len(of)-1] }

func top(of []float64) float64 {
	out := 0.0
	for _, value := range of {
		if value > out && !math.IsInf(value, 1) {
			out = value
		}
	}
	return out
}

// x is where a point begins; its value holds until the next.
func x(i, n int) string { return strconv.Itoa(int(math.Round(float64(i) * across / float64(n)))) }

// y is where a value is. What is beyond the top is at the top.
func y(value, top float64) string {
	return strconv.FormatFloat(math.Round(10*chartHeight*(1-min(1, max(0, value/top))))/10, 'f', -1, 64)
}

// steps is a path along values; unknown ones, and those beyond the top, leave gaps.
func steps(values []float64, top float64) string {
	var out strings.Builder
	before := ""
	for i, value := range values {
		if math.IsNaN(value) || value > top {
			before = ""
			continue
		}
		at := y(value, top)
		switch before {
		case "":
			out.WriteString("M" + x(i, len(values)) + " " + at)
		case at:
		default:
			out.WriteString("H" + x(i, len(values)) + "V" + at)
		}
		before = at
		if i+1 == len(values) || math.IsNaN(values[i+1]) || values[i+1] > top {
			out.WriteString("H" + x(i+1, len(values)))
		}
	}
	return out.String()
}

// area is a path around what is between two lines; without the lower one, above zero.
func area(lower, upper []float64, top float64) string {
	var out strings.Builder
	low := func(i int) float64 {
		if lower == nil || math.IsNaN(lower[i]) {
			return 0
		}
		return lower[i]
	}
	for from := 0; from < len(upper); from++ {
		if math.IsNaN(upper[from]) {
			continue
		}
		to := from
		for to < len(upper) && !math.IsNaN(upper[to]) {
			to++
		}
		out.WriteString("M" + x(from, len(upper)) + " " + y(low(from), top))
		before := ""
		for i := from; i < to; i++ {
			if at := y(upper[i], top); at != before {
				if i > from {
					out.WriteString("H" + x(i, len(upper)))
				}
				out.WriteString("V" + at)
				before = at
			}
		}
		out.WriteString("H" + x(to, len(upper)))
		if lower == nil {
			out.WriteString("V" + y(0, top) + "Z")
			from = to
			continue
		}
		before = ""
		for i := to - 1; i >= from; i-- {
			if at := y(low(i), top); at != before {
				if i < to-1 {
					out.WriteString("H" + x(i+1, len(upper)))
				}
				out.WriteString("V" + at)
				before = at
			}
		}
		out.WriteString("H" + x(from, len(upper)) + "Z")
		from = to
	}
	return out.String()
}

// described is the chart in words.
func described(p *backtest.Policy, c *backtest.Container, r resource) string {
	text := r.name + " of container " + c.Container + " with policy " + p.Name + ": use up to " + r.text(top(r.lines.UsageMax))
	ends := func(what string, line backtest.Line) {
		first, end := math.NaN(), math.NaN()
		for _, value := range line {
			if !math.IsNaN(value) {
				if math.IsNaN(first) {
					first = value
				}
				end = value
			}
		}
		if !math.IsNaN(first) {
			text += ", " + what + " from " + r.text(first) + " to " + r.text(end)
		}
	}
	ends("request", r.lines.Request)
	ends("limit", r.lines.Limit)
	ends("target", r.lines.Target)
	return text + "; " + plural(c.Evictions, "eviction") + ", " + plural(c.Resizes, "resize") + ", " + plural(c.OOMs, "OOM kill")
}
