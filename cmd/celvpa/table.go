package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/crds/quantity"
)

// grid is a table at hand. One without a head is not sorted.
type grid struct {
	head  []string
	rows  [][]any
	wraps bool // the last column is text, in lines that fit on a screen
}

// header sets the names of columns.
func (t *grid) header(names ...string) { t.head = names }

// row adds a row.
func (t *grid) row(cells ...any) { t.rows = append(t.rows, cells) }

// write writes the table, with each cell in one line, but for the last column of a table that wraps.
func (t *grid) write(to io.Writer, bare bool) {
	aligned := tabwriter.NewWriter(to, 0, 0, padding, ' ', 0)
	if len(t.head) > 0 && !bare {
		fmt.Fprintln(aligned, strings.Join(t.head, "\t"))
	}
	for _, cells := range t.rows {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = breaks.Replace(fmt.Sprint(cell))
		}
		last := len(texts) - 1
		if t.wraps && !bare {
			texts[last] = strings.ReplaceAll(wrap(texts[last], t.room(), 0, 0), "\n", "\n"+strings.Repeat("\t", last))
		}
		fmt.Fprintln(aligned, strings.Join(texts, "\t"))
	}
	_ = aligned.Flush()
}

// room is the number of columns of a screen that the others leave to the last one, at least narrowest.
func (t *grid) room() int {
	left, last := screenWidth(), len(t.head)-1
	for i, name := range t.head[:last] {
		width := utf8.RuneCountInString(name)
		for _, cells := range t.rows {
			width = max(width, utf8.RuneCountInString(fmt.Sprint(cells[i])))
		}
		left -= width + padding
	}
	return max(left, narrowest)
}

const (
	padding   = 2  // between columns
	narrowest = 30 // a column of text
)

// sort sorts the rows by a column.
func (t *grid) sort(column int) {
	slices.SortStableFunc(t.rows, func(x, y []any) int {
		a, b := newSortKey(x[column]), newSortKey(y[column])
		return cmp.Or(cmp.Compare(a.kind, b.kind), a.amount.Cmp(b.amount), strings.Compare(a.text, b.text))
	})
}

// sortKey is what a cell is sorted by: amounts come first, then texts, then what is missing.
type sortKey struct {
	kind   int
	amount resource.Quantity
	text   string
}

const (
	isAmount = iota
	isText
	isMissing
)

// newSortKey is the key of a cell. Of the amounts that it begins with, such as 100m → 250m, 83m..229 or 11 up, the last counts.
func newSortKey(cell any) sortKey {
	if s, is := cell.(length); is {
		return sortKey{amount: *resource.NewQuantity(int64(s), resource.DecimalSI)}
	}
	text := fmt.Sprint(cell)
	if text == "-" {
		return sortKey{kind: isMissing}
	}
	out := sortKey{kind: isText, text: text}
	for _, part := range strings.Fields(strings.ReplaceAll(text, "..", " ")) {
		if part == "→" || part == "-" {
			continue
		}
		q, err := quantity.Parse(strings.TrimSuffix(strings.TrimPrefix(part, "+"), "%"))
		if err != nil {
			break
		}
		out = sortKey{amount: q}
	}
	return out
}

// column is the name of a column as it is compared: any case will do, and a dash or underscore for a space.
func column(name string) string {
	return strings.NewReplacer("-", " ", "_", " ").Replace(strings.ToUpper(name))
}
