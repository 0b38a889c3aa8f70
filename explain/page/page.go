// Package page writes an explanation as one HTML page, with package markup.
package page

import (
	_ "embed"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
)

//go:embed style.css
var style string

// writer writes what explanations have.
type writer struct{ *markup.Writer }

// Write writes r as a page.
func Write(out io.Writer, r *explain.Report) error {
	w := &writer{markup.NewWriter(out)}
	of := func(write func(*writer, *explain.Report)) func() { return func() { write(w, r) } }
	w.Head(r.Subject+": why?", style)
	w.Body(of(verdict), []markup.Section{
		{ID: "findings", Title: "Findings", Count: len(r.Findings), Write: of(findings)},
		{ID: "numbers", Title: "Resources", Count: len(r.Resources), Write: of(numbers), Empty: len(r.Resources) == 0},
		{ID: "pods", Title: "Pods", Count: len(r.Pods), Write: of(pods)},
		{ID: "decisions", Title: "Decisions", Count: len(r.Decisions), Write: of(decisions)},
		{ID: "events", Title: "Events", Count: len(r.Events), Write: of(events)},
		{ID: "processes", Title: "Processes and rules", Write: of(processes)},
		{ID: "unknown", Title: "Not known", Count: len(r.Unknown), Write: of(unknown), Empty: len(r.Unknown) == 0},
	}, func() {
		w.Put("Written by <code>celvpa explain</code> at ")
		w.Time(r.Now)
		w.Put(". The page loads nothing. <code>celvpa explain -o json</code> has all of it, unabridged.")
	})
	return w.Finish()
}

// away says how far t is from now, e.g. 5m ago.
func away(t, now time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + duration.HumanDuration(d)
	}
	return duration.HumanDuration(now.Sub(t)) + " ago"
}
