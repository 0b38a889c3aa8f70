// Package page writes an explanation as one HTML page that needs nothing else: no network, no
// script, no font.
//
// It does not use html/template: that keeps the linker from leaving out what nobody calls, and makes
// the program 18 MB larger. Its own writer takes markup as constants only, and escapes all else.
package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"io"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/celvpa/celvpa/explain"
)

//go:embed style.css
var style string

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
	w := newWriter(out)
	sections := []section{
		{id: "findings", title: "Findings", count: len(r.Findings), write: findings},
		{id: "numbers", title: "Resources", count: len(r.Resources), write: numbers, empty: len(r.Resources) == 0},
		{id: "pods", title: "Pods", count: len(r.Pods), write: pods},
		{id: "decisions", title: "Decisions", count: len(r.Decisions), write: decisions},
		{id: "events", title: "Events", count: len(r.Events), write: events},
		{id: "processes", title: "Processes and rules", write: processes},
		{id: "unknown", title: "Not known", count: len(r.Unknown), write: unknown, empty: len(r.Unknown) == 0},
	}
	head(w, r)
	w.put("<body>\n<a class=\"skip\" href=\"#findings\">Skip to the findings</a>\n<header>\n")
	verdict(w, r)
	w.put("<nav aria-label=\"Contents\"><ul>\n")
	for _, s := range sections {
		if !s.empty {
			w.put("<li><a href=\"#{}\">{}", s.id, s.title)
			if s.count > 0 {
				w.put(" <span class=\"count\">{}</span>", strconv.Itoa(s.count))
			}
			w.put("</a></li>\n")
		}
	}
	w.put("</ul></nav>\n</header>\n<main>\n")
	for _, s := range sections {
		if !s.empty {
			w.put("<section aria-labelledby=\"{}\">\n<h2 id=\"{}\">{}</h2>\n", s.id, s.id, s.title)
			s.write(w, r)
			w.put("</section>\n")
		}
	}
	w.put("</main>\n<footer><p>Written by <code>celvpa explain</code> at ")
	w.time(r.Now)
	w.put(". The page loads nothing. <code>celvpa explain -o json</code> has all of it, unabridged.</p></footer>\n</body>\n</html>\n")
	return w.finish()
}

// head forbids all but the style of the page, by its digest.
func head(w *writer, r *explain.Report) {
	digest := sha256.Sum256([]byte(style))
	w.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{}: why?</title>
<style>`, base64.StdEncoding.EncodeToString(digest[:]), r.Subject)
	w.raw(style)
	w.put("</style>\n</head>\n")
}

const clock = "2006-01-02 15:04:05 UTC"

// time writes a time for people and for programs.
func (w *writer) time(t time.Time) {
	if t.IsZero() {
		w.put("an unknown time")
		return
	}
	t = t.UTC()
	w.put("<time datetime=\"{}\">{}</time>", t.Format(time.RFC3339), t.Format(clock))
}

// away says how far t is from now, e.g. 5m ago.
func away(t, now time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + duration.HumanDuration(d)
	}
	return duration.HumanDuration(now.Sub(t)) + " ago"
}
