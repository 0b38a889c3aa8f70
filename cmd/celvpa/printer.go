package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/celvpa/celvpa/engine"
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
	text, err := asJSON(result, "  ")
	if p.form == "yaml" {
		text, err = asYAML(result)
	}
	if err == nil {
		_, err = to.Write(text)
	}
	if err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// tables are the forms of a result that is a table, of which wide has all columns.
func tables(write func(p *page, wide bool)) map[string]func(*page) {
	return map[string]func(*page){
		"table": func(p *page) { write(p, false) },
		"wide":  func(p *page) { write(p, true) },
	}
}

// page is where text goes that people read. It remembers its first error, which Flush returns.
type page struct {
	*bufio.Writer
	table *tabwriter.Writer
	err   error // of what is written, not of writing it
}

func newPage(to io.Writer) *page {
	out := bufio.NewWriter(to)
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

// line prints a text in a line.
func (p *page) line(indent, text string) { p.printf("%s%s\n", indent, oneLine(text)) }

// usualWidth is the number of columns that wrapped text takes where there is no terminal.
const usualWidth = 80

const stdout = 1 // file descriptor

// screenWidth is the number of columns of the terminal, if the output goes to one.
var screenWidth = sync.OnceValue(func() int {
	if width, _, err := term.GetSize(stdout); err == nil && width > 0 {
		return width
	}
	return usualWidth
})

// wrapped prints a text in lines that fit on a screen; those after the first are indented by four columns, or below its beginning.
func (p *page) wrapped(indent, text string) {
	p.printf("%s", indent)
	column := utf8.RuneCountInString(indent)
	next := max(len("    "), column)
	for i, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+width > screenWidth():
			p.printf("\n%*s", next, "")
			column = next
		default:
			p.printf(" ")
			column++
		}
		p.printf("%s", word)
		column += width
	}
	p.printf("\n")
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

// breaks would end a cell of a table, or a note.
var breaks = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ", "\v", " ", "\f", " ", "\xff", "\uFFFD")

// oneLine is text without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
