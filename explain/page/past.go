package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
	"github.com/celvpa/celvpa/simulate"
)

// mark is something that happened.
type mark struct {
	at   time.Time
	lane string
	name string
}

// decisions writes when the processes decided what, and the decisions, newest first.
func decisions(w *writer, r *explain.Report) {
	if len(r.Decisions) == 0 {
		w.Put("<p>No decision is known.</p>\n")
		return
	}
	var marks []mark
	for _, d := range r.Decisions {
		marks = append(marks, mark{d.Time, d.Component, d.Action})
	}
	lanes(w, "Decisions over time", "process", marks, r.Now)
	list := slices.Clone(r.Decisions)
	slices.Reverse(list)
	w.Folds("decisions", len(list), markup.Shown, func(from, to int) {
		w.Table("Decisions, newest first", "Time", "Process", "Action", "About", "Why and what", "Identifiers")
		for _, d := range list[from:to] {
			w.Row()
			w.Cell("when")
			w.Time(d.Time)
			w.Put("<small>{}</small></td>", away(d.Time, r.Now))
			w.Word(d.Component)
			w.Word(d.Action)
			w.Cells(cmp.Or(d.Pod, "the VPA"))
			w.Cell("")
			if d.Rule != "" {
				w.Put("<p><code>{}</code></p>", d.Rule)
			}
			if d.Reason != "" {
				w.Put("<p>{}</p>", d.Reason)
			}
			if len(d.Changes) > 0 {
				w.Put("<ul class=\"plain\">")
				for i, c := range d.Changes {
					if i == markup.Shown {
						w.Put("<li>and {}</li>", simulate.Counted(len(d.Changes)-markup.Shown, "other change"))
						break
					}
					w.Put("<li>{}</li>", c)
				}
				w.Put("</ul>")
			}
			w.Put("</td>")
			w.Cell("ids")
			w.Put("decision <code>{}</code><br>inputs <code>{}</code><br>rules <code>{}</code></td></tr>\n", d.ID, d.Inputs, d.Rules)
		}
		w.EndTable()
	})
}

// events writes the VPA's events, newest first.
func events(w *writer, r *explain.Report) {
	if len(r.Events) == 0 {
		w.Put("<p>No event is known.</p>\n")
		return
	}
	var marks []mark
	for _, e := range r.Events {
		marks = append(marks, mark{e.Time, e.Type, e.Reason})
	}
	lanes(w, "Events over time", "type", marks, r.Now)
	list := slices.Clone(r.Events)
	slices.Reverse(list)
	w.Folds("events", len(list), markup.Shown, func(from, to int) {
		w.Table("Events, newest first", "Time", "Type", "Object", "Reason", "Message")
		for _, e := range list[from:to] {
			w.Row()
			w.Cell("when")
			w.Time(e.Time)
			w.Put("<small>{}", away(e.Time, r.Now))
			if e.Count > 1 {
				w.Put(", {}", simulate.Counted(e.Count, "time"))
			}
			w.Put("</small></td>")
			w.Cells(e.Type, e.Object, e.Reason, e.Message)
			w.Put("</tr>\n")
		}
		w.EndTable()
	})
	if r.EventsCut > 0 {
		w.Put("<p class=\"more\">{} left out.</p>\n", simulate.Counted(r.EventsCut, "older event"))
	}
}

// lanes draws when things happened, a row for each of up to 6 lanes. The table below it says the same.
func lanes(w *writer, caption, what string, marks []mark, now time.Time) {
	p := plot{from: now, to: now}
	var names []string
	for _, m := range marks {
		if m.at.IsZero() {
			continue
		}
		p.include(m.at)
		if !slices.Contains(names, m.lane) && len(names) < 6 {
			names = append(names, m.lane)
		}
	}
	if !p.to.After(p.from) {
		return
	}
	w.openBars(caption, markup.Period(p.from, p.to), what, "number", "when")
	for _, name := range names {
		n := 0
		for _, m := range marks {
			if m.lane == name {
				n++
			}
		}
		w.Put("<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"plot\"><svg width=\"100%\" height=\"22\" aria-hidden=\"true\"><line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"11\" y2=\"11\"/>", name, simulate.Counted(n, "time"))
		left := points
		for _, m := range slices.Backward(marks) {
			if m.lane == name && !m.at.IsZero() && left > 0 {
				left--
				w.Put("<circle class=\"mark\" cx=\"{}\" cy=\"11\" r=\"4\"/>", markup.Percent(0.01+0.98*p.x(m.at)))
			}
		}
		w.Put("</svg></td></tr>\n")
	}
	w.axis()
	w.Times(p.from, p.to, 16)
	w.closeBars()
}
