package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/celvpa/celvpa/explain"
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
		w.put("<p>No decision is known.</p>\n")
		return
	}
	var marks []mark
	for _, d := range r.Decisions {
		marks = append(marks, mark{d.Time, d.Component, d.Action})
	}
	lanes(w, "Decisions over time", "process", marks, r.Now)
	list := slices.Clone(r.Decisions)
	slices.Reverse(list)
	w.folds("decisions", len(list), shown, func(from, to int) {
		w.table("Decisions, newest first", "Time", "Process", "Action", "About", "Why and what", "Identifiers")
		for _, d := range list[from:to] {
			w.row()
			w.cell("when")
			w.time(d.Time)
			w.put("<small>{}</small></td>", away(d.Time, r.Now))
			w.word(d.Component)
			w.word(d.Action)
			w.cells(cmp.Or(d.Pod, "the VPA"))
			w.cell("")
			if d.Rule != "" {
				w.put("<p><code>{}</code></p>", d.Rule)
			}
			if d.Reason != "" {
				w.put("<p>{}</p>", d.Reason)
			}
			if len(d.Changes) > 0 {
				w.put("<ul class=\"plain\">")
				for i, c := range d.Changes {
					if i == shown {
						w.put("<li>and {}</li>", plural(len(d.Changes)-shown, "other change"))
						break
					}
					w.put("<li>{}</li>", c)
				}
				w.put("</ul>")
			}
			w.put("</td>")
			w.cell("ids")
			w.put("decision <code>{}</code><br>inputs <code>{}</code><br>rules <code>{}</code></td></tr>\n", d.ID, d.Inputs, d.Rules)
		}
		w.endTable()
	})
}

// events writes the VPA's events, newest first.
func events(w *writer, r *explain.Report) {
	if len(r.Events) == 0 {
		w.put("<p>No event is known.</p>\n")
		return
	}
	var marks []mark
	for _, e := range r.Events {
		marks = append(marks, mark{e.Time, e.Type, e.Reason})
	}
	lanes(w, "Events over time", "type", marks, r.Now)
	list := slices.Clone(r.Events)
	slices.Reverse(list)
	w.folds("events", len(list), shown, func(from, to int) {
		w.table("Events, newest first", "Time", "Type", "Object", "Reason", "Message")
		for _, e := range list[from:to] {
			w.row()
			w.cell("when")
			w.time(e.Time)
			w.put("<small>{}", away(e.Time, r.Now))
			if e.Count > 1 {
				w.put(", {}", plural(e.Count, "time"))
			}
			w.put("</small></td>")
			w.cells(e.Type, e.Object, e.Reason, e.Message)
			w.put("</tr>\n")
		}
		w.endTable()
	})
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
	w.openBars(caption, p.period(), what, "number", "when")
	for _, name := range names {
		n := 0
		for _, m := range marks {
			if m.lane == name {
				n++
			}
		}
		w.put("<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"plot\"><svg width=\"100%\" height=\"22\" aria-hidden=\"true\"><line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"11\" y2=\"11\"/>", name, plural(n, "time"))
		left := points
		for _, m := range slices.Backward(marks) {
			if m.lane == name && !m.at.IsZero() && left > 0 {
				left--
				w.put("<circle class=\"mark\" cx=\"{}\" cy=\"11\" r=\"4\"/>", percent(0.01+0.98*p.x(m.at)))
			}
		}
		w.put("</svg></td></tr>\n")
	}
	w.axis()
	p.times(w, 16)
	w.closeBars()
}
