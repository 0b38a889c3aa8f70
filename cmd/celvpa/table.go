package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/celvpa/celvpa/crds/quantity"
)

// grid is a table at hand. One without a head is not sorted.
type grid struct {
	head []string
	rows [][]any
}

// header sets the names of columns.
func (t *grid) header(names ...string) { t.head = names }

// row adds a row.
func (t *grid) row(cells ...any) { t.rows = append(t.rows, cells) }

// write writes the table, with each cell in one line.
func (t *grid) write(to io.Writer, bare bool) {
	aligned := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	if len(t.head) > 0 && !bare {
		fmt.Fprintln(aligned, strings.Join(t.head, "\t"))
	}
	for _, cells := range t.rows {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(aligned, "\t")
			}
			fmt.Fprint(aligned, breaks.Replace(fmt.Sprint(cell)))
		}
		fmt.Fprintln(aligned)
	}
	_ = aligned.Flush()
}

// sort sorts the rows by a column.
func (t *grid) sort(column int) {
	keys := make(map[*any]sortKey, len(t.rows)) // by the first cell
	for _, cells := range t.rows {
		keys[&cells[0]] = newSortKey(cells[column])
	}
	slices.SortStableFunc(t.rows, func(x, y []any) int {
		a, b := keys[&x[0]], keys[&y[0]]
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
