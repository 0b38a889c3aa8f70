// Package markup writes a report as one HTML page: its JSON beside a viewer, which is a script, and no request to
// anywhere. The viewer makes all texts of a report text nodes and attributes, never markup.
//
// It does not use html/template: that keeps the linker from leaving out what nobody calls, and makes the program
// 18 MB larger.
package markup

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
)

//go:embed page.html
var page string

//go:embed page.css
var style string

//go:embed page.js
var shared string

// Page is a report and what shows it.
type Page struct {
	Title   string
	Summary string // of the report, for browsers that do not run the viewer
	Viewer  string // JavaScript, after what all pages share
	Report  any    // in JSON as -o json prints it
	Charts  any    // what the viewer draws beside it; nil = nothing
}

// Write writes the page. Its policy allows its own style and script, by their digests, and nothing else.
func (p Page) Write(out io.Writer) error {
	report, err := data(p.Report)
	if err != nil {
		return err
	}
	charts, err := data(p.Charts)
	if err != nil {
		return err
	}
	script := shared + p.Viewer
	_, err = strings.NewReplacer(
		"{title}", html.EscapeString(visible(p.Title)), "{summary}", html.EscapeString(visible(p.Summary)),
		"{style}", style, "{style-digest}", digest(style), "{script}", script, "{script-digest}", digest(script),
		"{report}", report, "{charts}", charts,
	).WriteString(out, page)
	return err
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// data is JSON that can neither end a script element nor change how the text around it looks.
func data(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("writing JSON: %w", err)
	}
	return escaped(string(text), func(r rune) (out string) {
		for _, unit := range utf16.AppendRune(nil, r) {
			out += fmt.Sprintf(`\u%04x`, unit)
		}
		return out
	}), nil
}

// visible is text with the code points of what a reader does not see.
func visible(text string) string {
	return escaped(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) string { return fmt.Sprintf("[U+%04X]", r) })
}

// escaped is text with another one in place of each control and each character that sets the direction of text.
func escaped(text string, as func(rune) string) string {
	var out strings.Builder
	for _, r := range text {
		if unicode.In(r, unicode.Cc, unicode.Cf) {
			out.WriteString(as(r))
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// Period is the time that an axis covers.
func Period(from, to time.Time) string {
	return from.UTC().Format("2006-01-02 15:04") + " to " + to.UTC().Format("2006-01-02 15:04 UTC")
}
