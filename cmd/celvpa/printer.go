package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/celvpa/celvpa/engine"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// printer prints a result in the form that --output names.
type printer struct {
	form  string
	forms []string
}

// add adds the flag. A form that the printer does not know itself, json and yaml, is given to print.
func (p *printer) add(cmd *cobra.Command, usual string, forms ...string) {
	p.forms = forms
	cmd.Flags().StringVarP(&p.form, "output", "o", usual, p.choices())
	completes(cmd, "output", func(string) []string { return forms })
}

func (p *printer) choices() string {
	last := len(p.forms) - 1
	return strings.Join(p.forms[:last], ", ") + " or " + p.forms[last]
}

// check refuses a form that there is not. Tables may be called text.
func (p *printer) check() error {
	if p.form == "text" {
		p.form = "table"
	}
	if !slices.Contains(p.forms, p.form) {
		return fmt.Errorf("--output is %q; use %s", p.form, p.choices())
	}
	return nil
}

// print prints a result as JSON or as YAML of the same shape, or in one of its own forms.
func (p *printer) print(to io.Writer, result any, own map[string]func(*page)) error {
	if write := own[p.form]; write != nil {
		out := newPage(to)
		write(out)
		out.end()
		if err := cmp.Or(out.err, out.Flush()); err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
		return nil
	}
	out := bufio.NewWriter(to)
	if p.form == "yaml" {
		text, err := yaml.Marshal(result)
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		out.Write(text)
	} else {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(result); err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// page is where text goes that people read, without what it would do to their terminals: texts come from objects and processes of
// others. It remembers its first error, which Flush returns.
type page struct {
	*bufio.Writer
	table *tabwriter.Writer
	err   error // of what is written, not of writing it
}

func newPage(to io.Writer) *page {
	out := bufio.NewWriter(&visibleWriter{to: to})
	return &page{Writer: out, table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
}

// row adds a row to the table at hand, with each cell in one line.
func (p *page) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(p.table, "\t")
		}
		fmt.Fprint(p.table, breaks.Replace(fmt.Sprint(cell)))
	}
	fmt.Fprintln(p.table)
}

// end ends a table, so that other text can follow.
func (p *page) end() { _ = p.table.Flush() }

// printf adds text behind the table at hand.
func (p *page) printf(format string, args ...any) {
	p.end()
	fmt.Fprintf(p, format, args...)
}

// steps prints a trace.
func (p *page) steps(indent string, steps []engine.Step) {
	if len(steps) > 0 {
		p.end()
		p.fail(engine.Explain(p, indent, steps))
	}
}

// fail keeps an error for print.
func (p *page) fail(err error) { p.err = cmp.Or(p.err, err) }

// breaks would end a cell of a table. What else is not visible is replaced behind the table.
var breaks = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ", "\v", " ", "\f", " ", "\xff", "\uFFFD")

// oneLine is visible text without line breaks.
func oneLine(text string) string { return visible(strings.Join(strings.Fields(text), " ")) }

// visible is text with a replacement for each character that would change what a terminal shows around it.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// visibleWriter writes visible text.
type visibleWriter struct {
	to   io.Writer
	rest []byte // the beginning of a character
}

// Write implements io.Writer.
func (w *visibleWriter) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if start := len(text) - n; utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				whole = start
			}
			break
		}
	}
	w.rest = slices.Clone(text[whole:])
	if _, err := io.WriteString(w.to, visible(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}
