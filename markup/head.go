package markup

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"time"
)

//go:embed style.css
var base string

// Head writes the beginning of a page, up to its body. It forbids all but the style of the page, by
// its digest. style goes after the one that all pages have.
func (w *Writer) Head(title, style string) {
	style = base + style
	digest := sha256.Sum256([]byte(style))
	w.Put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{}</title>
<style>`, base64.StdEncoding.EncodeToString(digest[:]), title)
	w.raw(style)
	w.Put("</style>\n</head>\n")
}

// Clock is how pages write times.
const Clock = "2006-01-02 15:04:05 UTC"

// Time writes a time for people and for programs.
func (w *Writer) Time(t time.Time) {
	if t.IsZero() {
		w.Put("an unknown time")
		return
	}
	t = t.UTC()
	w.Put("<time datetime=\"{}\">{}</time>", t.Format(time.RFC3339), t.Format(Clock))
}
