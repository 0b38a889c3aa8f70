package page

import (
	"fmt"
	"strconv"
)

const (
	shown  = 25  // rows of a list that are open, as a rule
	folded = 100 // most rows in one fold
)

// folds writes n rows: the first ones openly, the others in folds, until the page is full.
func (w *writer) folds(of string, n, first int, write func(from, to int)) {
	write(0, min(first, n))
	for from := first; from < n; from += folded {
		to := min(from+folded, n)
		if w.full() {
			w.put("<p class=\"more\">{} more {} are left out: the page is full. <code>-o json</code> has them.</p>\n", strconv.Itoa(n-from), of)
			return
		}
		w.put("<details class=\"fold\"><summary>{}, {} to {} of {}</summary>\n", of, strconv.Itoa(from+1), strconv.Itoa(to), strconv.Itoa(n))
		write(from, to)
		w.put("</details>\n")
	}
}

// table opens a table that scrolls by itself where it is wider than the page.
func (w *writer) table(caption string, columns ...string) {
	w.put("<div class=\"scroll\" role=\"group\" aria-label=\"{}\" tabindex=\"0\"><table>\n<thead><tr>", caption)
	for _, c := range columns {
		w.put("<th scope=\"col\">{}</th>", c)
	}
	w.columns = columns
	w.put("</tr></thead>\n<tbody>\n")
}

func (w *writer) endTable() { w.put("</tbody></table></div>\n") }

func (w *writer) row() {
	w.column = 0
	w.put("<tr>")
}

// headCell opens the first cell of a row, which names the row.
func (w *writer) headCell() {
	w.column++
	w.put("<th scope=\"row\">")
}

// cell opens the next cell. It says which column it is in, for pages too narrow for columns.
func (w *writer) cell(class string) {
	if w.column >= len(w.columns) {
		w.fail(fmt.Errorf("a row has more cells than the columns %v", w.columns))
		return
	}
	w.put("<td class=\"{}\" data-column=\"{}\">", class, w.columns[w.column])
	w.column++
}

// cells writes the next cells.
func (w *writer) cells(texts ...string) {
	for _, text := range texts {
		w.cell("")
		w.put("{}</td>", text)
	}
}

// word writes the next cell, whose only word is too short to be broken.
func (w *writer) word(text string) {
	w.cell("word")
	w.put("{}</td>", text)
}
