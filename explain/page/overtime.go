package page

import (
	"strconv"
	"time"

	"github.com/celvpa/celvpa/explain"
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
	w.put("<figure class=\"chart\"><figcaption>{} over time <small>{}</small></figcaption>\n<div class=\"time\" role=\"img\" aria-label=\"{}\">", a.Resource, p.period(), described(a, r.Now))
	w.put("<svg class=\"y\" width=\"56\" height=\"180\">")
	for _, t := range p.scale.ticks() {
		w.put("<text x=\"50\" y=\"{}\" text-anchor=\"end\">{}</text>", pixel(height-t.at*(height-10)+4), t.label)
	}
	w.put("</svg><svg width=\"100%\" height=\"180\">")
	p.frame(w, r.Now)
	for _, l := range lines {
		p.line(w, l)
	}
	w.put("</svg></div>\n<ul class=\"legend\">")
	for i, l := range lines {
		if i > 0 && lines[i-1].name == l.name {
			continue
		}
		w.put("<li><svg width=\"24\" height=\"10\" aria-hidden=\"true\"><line class=\"{}\" x1=\"0\" x2=\"24\" y1=\"5\" y2=\"5\"/></svg> {}</li>", l.class, l.name)
	}
	w.put("</ul>\n")
	falls(w, a, r.Now)
	w.put("</figure>\n")
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
		text += ", since " + a.History[0].Time.UTC().Format(clock)
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
	w.put("<p>If each pod uses what it used last, the target falls:</p>\n<ul class=\"falls\">")
	for i, f := range a.Falls {
		if i == shown {
			w.put("<li>and {} more</li>", strconv.Itoa(len(a.Falls)-shown))
			break
		}
		w.put("<li>to <strong>{}</strong>{} {}, at ", f.Target, readable(f.Target), away(f.At, now))
		w.time(f.At)
		w.put("</li>")
	}
	w.put("</ul>\n")
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
		y := pixel(height - t.at*(height-10))
		w.put("<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{}\" y2=\"{}\"/>", y, y)
	}
	w.put("<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"160\" y2=\"160\"/>")
	p.times(w, height+16)
	if at := percent(p.x(now)); now.After(p.from) {
		w.put("<line class=\"now\" x1=\"{}\" x2=\"{}\" y1=\"0\" y2=\"160\"/>", at, at)
	}
}

const day = 24 * time.Hour

// rounds are the distances between round times.
var rounds = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 4 * day, 7 * day, 14 * day, 30 * day, 90 * day, 365 * day,
}

// times draws up to 4 round times under an axis.
func (p *plot) times(w *writer, y int) {
	step := rounds[len(rounds)-1]
	for _, d := range rounds {
		if p.to.Sub(p.from) <= 4*d {
			step = d
			break
		}
	}
	layout := "2 Jan"
	if step > 30*day {
		layout = "2006-01"
	}
	for at, n := p.from.UTC().Truncate(step).Add(step), 0; !at.After(p.to) && n < 5; at, n = at.Add(step), n+1 {
		x, anchor, label := p.x(at), "middle", at.Format(layout)
		if step < day && at.Truncate(day) != at {
			label = at.Format("15:04")
		}
		switch {
		case x < 0.1:
			anchor = "start"
		case x > 0.9:
			anchor = "end"
		}
		w.put("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>", percent(x), strconv.Itoa(y), anchor, label)
	}
}

// period is the time that an axis covers.
func (p *plot) period() string {
	return p.from.UTC().Format("2006-01-02 15:04") + " to " + p.to.UTC().Format("2006-01-02 15:04 UTC")
}

// line draws a series in steps.
func (p *plot) line(w *writer, s series) {
	for i := 1; i < len(s.at); i++ {
		y0, ok := p.y(s.value[i-1])
		y1, known := p.y(s.value[i])
		if !ok || !known {
			continue
		}
		from, to := percent(p.x(s.at[i-1])), percent(p.x(s.at[i]))
		w.put("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", s.class, from, to, pixel(y0), pixel(y0))
		if y0 != y1 {
			w.put("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", s.class, to, to, pixel(y0), pixel(y1))
		}
	}
}

func pixel(y float64) string { return strconv.FormatFloat(y, 'f', 1, 64) }
