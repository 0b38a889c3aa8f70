// Package page writes an explanation as one HTML page, with package markup.
package page

import (
	_ "embed"
	"io"

	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
)

//go:embed viewer.js
var viewer string

// Write writes r as a page.
func Write(out io.Writer, r *explain.Report) error {
	return markup.Page{Title: r.Subject + ": why?", Summary: r.Verdict.Text, Viewer: viewer, Report: r}.Write(out)
}
