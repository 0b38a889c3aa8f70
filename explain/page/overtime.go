package page

import (
	"strconv"
	"time"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
)

const (
	height = 160 // pixels of a chart over time
	points = 150 // most of one series
)

// series is one line of a chart over time. Each value holds until the next.
type series struct {
	name, class string
	at          []time.Time
	value       []string
}

func (s *series) add(at time.Time, value string) {
	if value != "" {
		s.at, s.value = append(s.at, at), append(s.value, value)
	}
}

// overTime draws what is known of the past, and how the target falls if usage stays as it is.
func overTime(w *writer, r *explain.Report, a explain.Amounts, having map[place]*held) {
	if len(a.History) == 0 && len(a.Falls) == 0 {
		return
	}
	lines := seriesOf(r, a, having)
	p := plot{from: r.Now, to: r.Now}
	var all, outer []string
	for _, l := range lines {
		for i, at := range l.at {
			p.include(at)
			if l.class == "bound" {
				outer = append(outer, l.value[i])
			} else {
				all = append(all, l.value[i])
			}
		}
	}
	if p.scale = scaleOf(a.Resource, all, outer); p.scale.top == 0 || !p.to.After(p.from) {
		return
	}
	w.Put("<figure class=\"chart\"><figcaption>{} over time <small>{}</small></figcaption>\n<div class=\"time\" role=\"img\" aria-label=\"{}\">", a.Resource, markup.Period(p.from, p.to), described(a, r.Now))
	w.Put("<svg class=\"y\" width=\"56\" height=\"180\">")
	for _, t := range p.scale.ticks() {
		w.Put("<text x=\"50\" y=\"{}\" text-anchor=\"end\">{}</text>", markup.Pixel(height-t.At*(height-10)+4), t.Label)
	}
	w.Put("</svg><svg width=\"100%\" height=\"180\">")
	p.frame(w, r.Now)
	for _, l := range lines {
		p.line(w, l)
	}
	w.Put("</svg></div>\n<ul class=\"legend\">")
	for i, l := range lines {
		if i > 0 && lines[i-1].name == l.name {
			continue
		}
		w.Put("<li><svg width=\"24\" height=\"10\" aria-hidden=\"true\"><line class=\"{}\" x1=\"0\" x2=\"24\" y1=\"5\" y2=\"5\"/></svg> {}</li>", l.class, l.name)
	}
	w.Put("</ul>\n")
	falls(w, a, r.Now)
	w.Put("</figure>\n")
}

// seriesOf is what is known over time. What the pods request and use now stays, as the falls assume.
func seriesOf(r *explain.Report, a explain.Amounts, having map[place]*held) []series {
	usage, request := series{name: "usage", class: "usage"}, series{name: "request", class: "request"}
	target, lower, upper := series{name: "target", class: "target"}, series{name: "bounds", class: "bound"}, series{name: "bounds", class: "bound"}
	for _, p := range thinned(a.History) {
		usage.add(p.Time, p.Usage)
		request.add(p.Time, p.Request)
		target.add(p.Time, p.Target)
		lower.add(p.Time, p.LowerBound)
		upper.add(p.Time, p.UpperBound)
	}
	target.add(r.Now, a.Target)
	lower.add(r.Now, a.LowerBound)
	upper.add(r.Now, a.UpperBound)
	usage.add(r.Now, a.LastUsage)
	if h := having[place{a.Container, "requests." + a.Resource}]; h != nil {
		request.add(r.Now, h.now.top(1)[0].value)
	}
	for i, f := range a.Falls {
		if i < points {
			target.add(f.At, f.Target)
		}
	}
	if n := len(target.at); n > 0 && len(a.Falls) > 0 {
		end := target.at[n-1]
		target.add(end.Add(end.Sub(r.Now)/20), target.value[n-1])
		usage.add(end, a.LastUsage)
		if n := len(request.value); n > 0 {
			request.add(end, request.value[n-1])
		}
	}
	var out []series
	for _, s := range []series{upper, lower, request, usage, target} {
		if len(s.at) > 1 {
			out = append(out, s)
		}
	}
	return out
}

// thinned is the list with as many points as a chart can show, the last one among them.
func thinned(list []explain.Point) []explain.Point {
	every := (len(list) + points - 1) / points
	if every <= 1 {
		return list
	}
	var out []explain.Point
	for i := (len(list) - 1) % every; i < len(list); i += every {
		out = append(out, list[i])
	}
	return out
}

// described is the chart in words.
func described(a explain.Amounts, now time.Time) string {
	text := a.Resource + " over time"
	if n := len(a.History); n > 0 {
		text += ", since " + a.History[0].Time.UTC().Format(markup.Clock)
	}
	if n := len(a.Falls); n > 0 {
		last := a.Falls[n-1]
		text += ": the target falls from " + a.Target + " to " + last.Target + ", " + away(last.At, now)
	}
	return text
}

// falls says when the target drops, in words.
func falls(w *writer, a explain.Amounts, now time.Time) {
	if len(a.Falls) == 0 {
		return
	}
	w.Put("<p>If each pod uses what it used last, the target falls:</p>\n<ul class=\"falls\">")
	for i, f := range a.Falls {
		if i == markup.Shown {
			w.Put("<li>and {} more</li>", strconv.Itoa(len(a.Falls)-markup.Shown))
			break
		}
		w.Put("<li>to <strong>{}</strong>{} {}, at ", f.Target, readable(f.Target), away(f.At, now))
		w.Time(f.At)
		w.Put("</li>")
	}
	w.Put("</ul>\n")
}

// plot is the area of a chart over time.
type plot struct {
	from, to time.Time
	scale    scale
}

func (p *plot) include(at time.Time) {
	if at.Before(p.from) {
		p.from = at
	}
	if at.After(p.to) {
		p.to = at
	}
}

func (p *plot) x(at time.Time) float64 { return float64(at.Sub(p.from)) / float64(p.to.Sub(p.from)) }

func (p *plot) y(value string) (y float64, ok bool) {
	at, _, ok := p.scale.at(value)
	return height - at*(height-10), ok
}

// frame draws the axes, and now.
func (p *plot) frame(w *writer, now time.Time) {
	for _, t := range p.scale.ticks() {
		y := markup.Pixel(height - t.At*(height-10))
		w.Put("<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{}\" y2=\"{}\"/>", y, y)
	}
	w.Put("<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"160\" y2=\"160\"/>")
	w.Times(p.from, p.to, height+16)
	if at := markup.Percent(p.x(now)); now.After(p.from) {
		w.Put("<line class=\"now\" x1=\"{}\" x2=\"{}\" y1=\"0\" y2=\"160\"/>", at, at)
	}
}

// line draws a series in steps.
func (p *plot) line(w *writer, s series) {
	for i := 1; i < len(s.at); i++ {
		y0, ok := p.y(s.value[i-1])
		y1, known := p.y(s.value[i])
		if !ok || !known {
			continue
		}
		from, to := markup.Percent(p.x(s.at[i-1])), markup.Percent(p.x(s.at[i]))
		w.Put("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", s.class, from, to, markup.Pixel(y0), markup.Pixel(y0))
		if y0 != y1 {
			w.Put("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", s.class, to, to, markup.Pixel(y0), markup.Pixel(y1))
		}
	}
}
