package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
	"github.com/celvpa/celvpa/engine/faults"
)

// printer prints a result in the form that --output names.
type printer struct {
	form   string
	forms  []string
	sortBy string
	bare   bool // rows of tables, and nothing else
}

// add adds the flag. A form that the printer does not know itself, json and yaml, is given to print.
func (p *printer) add(cmd *cobra.Command, usual string, forms ...string) {
	p.forms = forms
	cmd.Flags().StringVarP(&p.form, "output", "o", usual, p.choices())
	completes(cmd, "output", func(string) []string { return forms })
}

// addTables is add for a result that has tables.
func (p *printer) addTables(cmd *cobra.Command, usual string, forms ...string) {
	p.add(cmd, usual, forms...)
	cmd.Flags().StringVar(&p.sortBy, "sort-by", "", "column to sort rows by; numbers and quantities sort by value, and of two in a cell the last counts")
	cmd.Flags().BoolVar(&p.bare, "no-headers", false, "print the rows of tables, without headers and what is around them")
	completes(cmd, "sort-by", func(string) []string { return nil })
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
		return fmt.Errorf("--output is %q; %suse %s", p.form, faults.Near(p.form, p.forms), p.choices())
	}
	if p.form != "table" && p.form != "wide" && (p.bare || p.sortBy != "") {
		return fmt.Errorf("--sort-by and --no-headers are for tables, and --output is %s: leave them out", p.form)
	}
	return nil
}

// print prints a result as JSON or as YAML of the same shape, or in one of its own forms.
func (p *printer) print(to io.Writer, result any, own map[string]func(*page)) error {
	if write := own[p.form]; write != nil {
		var text bytes.Buffer
		out := newPage(&text)
		out.sortBy, out.bare = column(p.sortBy), p.bare
		write(out)
		out.end()
		_ = out.Flush() // a Buffer takes everything
		if err := out.unsorted(); err != nil {
			return err
		}
		_, failed := io.Copy(to, &text)
		if err := cmp.Or(out.err, failed); err != nil {
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

var vpaResource = "verticalpodautoscaler." + vpav1.GroupVersion.Group

// names prints the names of objects as kubectl does. key is namespace/name.
func names[T any](resource string, items []T, key func(*T) string) func(*page) {
	return func(p *page) {
		for i := range items {
			_, name, _ := strings.Cut(key(&items[i]), "/")
			p.line("", resource+"/"+name)
		}
	}
}

// page is where text goes that people read. It remembers its first error, which Flush returns.
type page struct {
	*bufio.Writer
	grid
	sortBy  string   // a column; empty = none
	bare    bool     // rows of tables, and nothing else
	columns []string // of all tables
	sorted  bool     // one had the column
	err     error    // of what is written, not of writing it
}

func newPage(to io.Writer) *page { return &page{Writer: bufio.NewWriter(to)} }

// end ends a table, so that other text can follow.
func (p *page) end() {
	for i, name := range p.head {
		if column(name) == p.sortBy {
			p.sort(i)
			p.sorted = true
		}
		if !slices.Contains(p.columns, name) {
			p.columns = append(p.columns, name)
		}
	}
	p.write(p.Writer, p.bare)
	p.grid = grid{}
}

// unsorted is the error that no table has the column to sort by.
func (p *page) unsorted() error {
	if p.sortBy == "" || p.sorted || len(p.columns) == 0 {
		return nil
	}
	return fmt.Errorf("--sort-by: there is no column %s; %sthe columns are %s", p.sortBy, faults.Near(p.sortBy, p.columns), strings.Join(p.columns, ", "))
}

// printf adds text behind the table at hand.
func (p *page) printf(format string, args ...any) {
	p.end()
	if !p.bare {
		fmt.Fprintf(p, format, args...)
	}
}

// line prints a text in a line.
func (p *page) line(indent, text string) { p.printf("%s%s\n", indent, oneLine(text)) }

// usualWidth is the number of columns that wrapped text takes where there is no terminal.
const usualWidth = 80

const stdout = 1 // file descriptor

// terminalWidth is the number of columns of the terminal; 0 if the output goes to none.
var terminalWidth = sync.OnceValue(func() int {
	width, _, _ := term.GetSize(stdout)
	return max(width, 0)
})

// screenWidth is the number of columns that text takes.
func screenWidth() int { return cmp.Or(terminalWidth(), usualWidth) }

// wrapped prints a text in lines that fit on a screen; those after the first are indented by four columns, or below its beginning.
func (p *page) wrapped(indent, text string) {
	column := utf8.RuneCountInString(indent)
	p.printf("%s%s\n", indent, wrap(text, screenWidth(), column, max(len("    "), column)))
}

// wrap is a text in lines of a width. The first begins in a column, and the others are indented.
func wrap(text string, most, column, indent int) string {
	var out strings.Builder
	for i, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+width > most:
			fmt.Fprintf(&out, "\n%*s", indent, "")
			column = indent
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += width
	}
	return out.String()
}

// steps prints a trace.
func (p *page) steps(indent string, steps []engine.Step) {
	if p.end(); len(steps) > 0 && !p.bare {
		p.fail(engine.Explain(p, indent, steps))
	}
}

// fail keeps an error for print.
func (p *page) fail(err error) { p.err = cmp.Or(p.err, err) }

// breaks would end a cell of a table, or a note.
var breaks = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ", "\v", " ", "\f", " ", "\xff", "\uFFFD")

// oneLine is text without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
