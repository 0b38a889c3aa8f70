package page

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// markup is HTML of this package's source. Constants convert to it, strings of a report do not, so
// the compiler sees to it that all of these are escaped.
type markup string

const (
	longest = 2000    // runes of one text of the report
	budget  = 8 << 20 // bytes of a page, after which lists end early
)

// writer writes a page. It keeps the first error.
type writer struct {
	out     *bufio.Writer
	written int
	err     error

	columns []string // of the table that is being written
	column  int
}

func newWriter(w io.Writer) *writer { return &writer{out: bufio.NewWriterSize(w, 64<<10)} }

// put writes m with the escaped values in place of each {}.
func (w *writer) put(m markup, values ...string) {
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

// raw writes text that is markup already.
func (w *writer) raw(text string) {
	if w.err != nil {
		return
	}
	n, err := w.out.WriteString(text)
	w.written += n
	w.err = err
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// full says that lists have to end, for a browser to stay quick.
func (w *writer) full() bool { return w.written > budget }

func (w *writer) finish() error {
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
