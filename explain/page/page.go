// Package page writes an explanation as one HTML page, with package markup.
package page

import (
	_ "embed"
	"io"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
)

//go:embed style.css
var style string

// writer writes what explanations have.
type writer struct{ *markup.Writer }

// section is one part of the page that the list of contents names.
type section struct {
	id    string
	title string
	count int // of what it lists; 0 = not said
	write func(*writer, *explain.Report)
	empty bool
}

// Write writes r as a page.
func Write(out io.Writer, r *explain.Report) error {
	w := &writer{markup.NewWriter(out)}
	sections := []section{
		{id: "findings", title: "Findings", count: len(r.Findings), write: findings},
		{id: "numbers", title: "Resources", count: len(r.Resources), write: numbers, empty: len(r.Resources) == 0},
		{id: "pods", title: "Pods", count: len(r.Pods), write: pods},
		{id: "decisions", title: "Decisions", count: len(r.Decisions), write: decisions},
		{id: "events", title: "Events", count: len(r.Events), write: events},
		{id: "processes", title: "Processes and rules", write: processes},
		{id: "unknown", title: "Not known", count: len(r.Unknown), write: unknown, empty: len(r.Unknown) == 0},
	}
	w.Head(r.Subject+": why?", style)
	w.Put("<body>\n<a class=\"skip\" href=\"#findings\">Skip to the findings</a>\n<header>\n")
	verdict(w, r)
	w.Put("<nav aria-label=\"Contents\"><ul>\n")
	for _, s := range sections {
		if !s.empty {
			w.Put("<li><a href=\"#{}\">{}", s.id, s.title)
			if s.count > 0 {
				w.Put(" <span class=\"count\">{}</span>", strconv.Itoa(s.count))
			}
			w.Put("</a></li>\n")
		}
	}
	w.Put("</ul></nav>\n</header>\n<main>\n")
	for _, s := range sections {
		if !s.empty {
			w.Put("<section aria-labelledby=\"{}\">\n<h2 id=\"{}\">{}</h2>\n", s.id, s.id, s.title)
			s.write(w, r)
			w.Put("</section>\n")
		}
	}
	w.Put("</main>\n<footer><p>Written by <code>celvpa explain</code> at ")
	w.Time(r.Now)
	w.Put(". The page loads nothing. <code>celvpa explain -o json</code> has all of it, unabridged.</p></footer>\n</body>\n</html>\n")
	return w.Finish()
}

// away says how far t is from now, e.g. 5m ago.
func away(t, now time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + duration.HumanDuration(d)
	}
	return duration.HumanDuration(now.Sub(t)) + " ago"
}
