// Package markup writes pages that need nothing else: no network, no script, no font. Tables fold and
// stack, so that a page stays usable when it is large or narrow.
//
// It does not use html/template: that keeps the linker from leaving out what nobody calls, and makes
// the program 18 MB larger. Its own writer takes markup as constants only, and escapes all else.
package markup

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is HTML of the program's source. Constants convert to it, strings of a report do not, so the
// compiler sees to it that all of these are escaped.
type Text string

const (
	longest = 2000    // runes of one text of the report
	budget  = 8 << 20 // bytes of a page, after which lists end early
)

// Writer writes a page. It keeps the first error.
type Writer struct {
	out     *bufio.Writer
	written int
	err     error

	columns []string // of the table that is being written
	column  int
}

// NewWriter returns one that buffers; Finish writes the rest.
func NewWriter(w io.Writer) *Writer { return &Writer{out: bufio.NewWriterSize(w, 64<<10)} }

// Put writes m with the escaped values in place of each {}.
func (w *Writer) Put(m Text, values ...string) {
	rest := string(m)
	for _, value := range values {
		before, after, found := strings.Cut(rest, "{}")
		if !found {
			w.fail(fmt.Errorf("more values than places in %q", string(m)))
			return
		}
		w.raw(before)
		w.raw(html.EscapeString(visible(value)))
		rest = after
	}
	if strings.Contains(rest, "{}") {
		w.fail(fmt.Errorf("fewer values than places in %q", string(m)))
		return
	}
	w.raw(rest)
}

// Path draws an SVG path along d, which the page computed. Unlike a text of the report it is written whole, however long:
// half a path draws something else.
func (w *Writer) Path(class Text, d string) {
	w.raw("<path class=\"" + string(class) + "\" d=\"" + html.EscapeString(d) + "\"/>")
}

// raw writes text that is markup already.
func (w *Writer) raw(text string) {
	if w.err != nil {
		return
	}
	n, err := w.out.WriteString(text)
	w.written += n
	w.err = err
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Spent is which part of a page's room is taken; at 1 it is full.
func (w *Writer) Spent() float64 { return float64(w.written) / budget }

// Full says that lists have to end, for a browser to stay quick.
func (w *Writer) Full() bool { return w.written > budget }

// Finish ends the page, and returns the first error.
func (w *Writer) Finish() error {
	if w.err != nil {
		return w.err
	}
	return w.out.Flush()
}

// visible is text as it is, but bounded, and with the code points in place of characters that a
// reader does not see and that change how the text around them looks.
func visible(text string) string {
	if cut, rest := limited(text); rest > 0 {
		text = fmt.Sprintf("%s… (%d more characters)", cut, rest)
	}
	if strings.IndexFunc(text, hidden) < 0 && utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if hidden(r) {
			fmt.Fprintf(&out, "[U+%04X]", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

func limited(text string) (cut string, rest int) {
	n := 0
	for at := range text {
		if n == longest {
			return text[:at], utf8.RuneCountInString(text[at:])
		}
		n++
	}
	return text, 0
}

// hidden characters are controls, but for white space, and those that set the direction of text.
func hidden(r rune) bool {
	switch r {
	case '\n', '\t', '\r':
		return false
	case '\u2028', '\u2029': // line and paragraph separator
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf)
}
