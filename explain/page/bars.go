package page

import (
	"cmp"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
	"github.com/celvpa/celvpa/simulate"
)

// bars writes usage beside request, target and bounds: a table whose last column draws them on one scale.
func bars(w *writer, a explain.Amounts, having map[place]*held) {
	var requests []count
	if h := having[place{a.Container, "requests." + a.Resource}]; h != nil {
		requests = h.now.top(3)
	}
	inner := []string{a.LastUsage, a.Target, a.LowerBound}
	for _, p := range a.Usage {
		inner = append(inner, p.Amount)
	}
	for _, c := range requests {
		inner = append(inner, c.value)
	}
	s := scaleOf(a.Resource, inner, []string{a.UpperBound, a.Uncapped})
	if s.top == 0 {
		return
	}
	w.openBars("Usage against request, target and bounds of "+a.Resource, "", "what", "amount", "on a scale")
	used := taken(a)
	for i, p := range a.Usage {
		name, class := "percentile "+p.Percent, "usage"
		if i == used {
			name, class = name+", used", "used"
		}
		w.bar(s, a.Target, name, p.Amount, class)
	}
	w.dot(s, a.Target, "last usage", a.LastUsage, "usage")
	for _, c := range requests {
		name := "request now"
		if len(requests) > 1 {
			name += ", " + simulate.Counted(c.pods, "pod")
		}
		w.dot(s, a.Target, name, c.value, "request")
	}
	w.dot(s, a.Target, "target", a.Target, "target")
	if a.Uncapped != a.Target {
		w.dot(s, a.Target, "uncapped target", a.Uncapped, "target")
	}
	w.bounds(s, a)
	w.axis()
	for _, t := range s.ticks() {
		anchor := "middle"
		if t.At > 0.9 {
			anchor = "end"
		}
		w.Put("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"1\" y2=\"5\"/><text x=\"{}\" y=\"17\" text-anchor=\"{}\">{}</text>", markup.Percent(t.At), markup.Percent(t.At), markup.Percent(t.At), anchor, t.Label)
	}
	w.closeBars()
}

// openBars opens a table whose last column is drawn. All rows say in text what they draw.
func (w *writer) openBars(caption, period, name, number, drawing string) {
	w.Put("<div class=\"chart\"><table class=\"bars\"><caption>{} <small>{}</small></caption>\n<colgroup><col class=\"name\"><col class=\"number\"><col></colgroup>\n", caption, period)
	w.Put("<thead><tr><th scope=\"col\">{}</th><th scope=\"col\">{}</th><th scope=\"col\">{}</th></tr></thead>\n<tbody>\n", name, number, drawing)
}

// axis ends the rows, and opens the axis below them.
func (w *writer) axis() {
	w.Put("</tbody>\n<tfoot aria-hidden=\"true\"><tr><td></td><td></td><td class=\"plot\"><svg width=\"100%\" height=\"20\"><line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"1\" y2=\"1\"/>")
}

func (w *writer) closeBars() { w.Put("</svg></td></tr></tfoot></table></div>\n") }

// barRow opens a row of the chart with the target across it.
func (w *writer) barRow(s scale, target, name, value string) {
	w.Put("<tr><th scope=\"row\">{}</th><td class=\"n\">{}<small>{}</small></td><td class=\"plot\"><svg width=\"100%\" height=\"22\" aria-hidden=\"true\">", name, value, readable(value))
	if at, past, ok := s.at(target); ok && !past {
		w.Put("<line class=\"guide\" x1=\"{}\" x2=\"{}\" y1=\"0\" y2=\"100%\"/>", markup.Percent(at), markup.Percent(at))
	}
}

func (w *writer) bar(s scale, target, name, value, class string) {
	w.barRow(s, target, name, value)
	if at, _, ok := s.at(value); ok {
		w.Put("<rect class=\"{}\" width=\"{}\" y=\"5\" height=\"12\"/>", class, markup.Percent(at))
	}
	w.Put("</svg></td></tr>\n")
}

func (w *writer) dot(s scale, target, name, value, class string) {
	if value == "" {
		return
	}
	w.barRow(s, target, name, value)
	if at, past, ok := s.at(value); past {
		w.beyond()
	} else if ok {
		w.Put("<circle class=\"{}\" cx=\"{}\" cy=\"11\" r=\"5\"/>", class, markup.Percent(at))
	}
	w.Put("</svg></td></tr>\n")
}

func (w *writer) beyond() {
	w.Put("<text x=\"100%\" y=\"15\" text-anchor=\"end\">beyond the scale →</text>")
}

// bounds draws the range in which pods are left alone.
func (w *writer) bounds(s scale, a explain.Amounts) {
	if a.LowerBound == "" && a.UpperBound == "" {
		return
	}
	w.barRow(s, a.Target, "bounds", cmp.Or(a.LowerBound, "none")+" to "+cmp.Or(a.UpperBound, "none"))
	low, _, _ := s.at(a.LowerBound)
	high, past, ok := s.at(a.UpperBound)
	if !ok || past {
		high = 1
	}
	w.Put("<line class=\"bound\" x1=\"{}\" x2=\"{}\" y1=\"11\" y2=\"11\"/>", markup.Percent(low), markup.Percent(high))
	w.Put("<line class=\"bound\" x1=\"{}\" x2=\"{}\" y1=\"6\" y2=\"16\"/>", markup.Percent(low), markup.Percent(low))
	if past {
		w.Put("<text class=\"halo\" x=\"100%\" y=\"15\" text-anchor=\"end\">beyond the scale →</text>")
	} else if ok {
		w.Put("<line class=\"bound\" x1=\"{}\" x2=\"{}\" y1=\"6\" y2=\"16\"/>", markup.Percent(high), markup.Percent(high))
	}
	w.Put("</svg></td></tr>\n")
}
