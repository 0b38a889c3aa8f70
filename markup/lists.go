package markup

import (
	"fmt"
	"strconv"
)

// How long lists are.
const (
	Shown  = 25  // rows of a list that are open, as a rule
	folded = 100 // most rows in one fold
)

// Folds writes n rows: the first ones openly, the others in folds, until the page is full.
func (w *Writer) Folds(of string, n, first int, write func(from, to int)) {
	write(0, min(first, n))
	for from := first; from < n; from += folded {
		to := min(from+folded, n)
		if w.Full() {
			w.Put("<p class=\"more\">{} more {} are left out: the page is full. <code>-o json</code> has them.</p>\n", strconv.Itoa(n-from), of)
			return
		}
		w.Put("<details class=\"fold\"><summary>{}, {} to {} of {}</summary>\n", of, strconv.Itoa(from+1), strconv.Itoa(to), strconv.Itoa(n))
		write(from, to)
		w.Put("</details>\n")
	}
}

// Table opens a table that scrolls by itself where it is wider than the page.
func (w *Writer) Table(caption string, columns ...string) {
	w.Put("<div class=\"scroll\" role=\"group\" aria-label=\"{}\" tabindex=\"0\"><table>\n<thead><tr>", caption)
	for _, c := range columns {
		w.Put("<th scope=\"col\">{}</th>", c)
	}
	w.columns = columns
	w.Put("</tr></thead>\n<tbody>\n")
}

// EndTable closes it.
func (w *Writer) EndTable() { w.Put("</tbody></table></div>\n") }

// Row opens a row; its cells close themselves, but for those of HeadCell and Cell.
func (w *Writer) Row() {
	w.column = 0
	w.Put("<tr>")
}

// HeadCell opens the first cell of a row, which names the row.
func (w *Writer) HeadCell() {
	w.column++
	w.Put("<th scope=\"row\">")
}

// Cell opens the next cell. It says which column it is in, for pages too narrow for columns.
func (w *Writer) Cell(class string) {
	if w.column >= len(w.columns) {
		w.fail(fmt.Errorf("a row has more cells than the columns %v", w.columns))
		return
	}
	w.Put("<td class=\"{}\" data-column=\"{}\">", class, w.columns[w.column])
	w.column++
}

// Cells writes the next cells.
func (w *Writer) Cells(texts ...string) {
	for _, text := range texts {
		w.Cell("")
		w.Put("{}</td>", text)
	}
}

// Word writes the next cell, whose only word is too short to be broken.
func (w *Writer) Word(text string) {
	w.Cell("word")
	w.Put("{}</td>", text)
}
