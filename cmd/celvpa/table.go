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

// sort sorts the rows by a column: amounts first, by value, then texts, then what is missing.
func (t *grid) sort(column int) {
	const amount, text, missing = 0, 1, 2
	kind := func(k *sortKey) int {
		switch {
		case k.amount != nil:
			return amount
		case k.text == "" || k.text == "-":
			return missing
		}
		return text
	}
	keys := make([]sortKey, len(t.rows))
	order := make([]int, len(t.rows))
	for i, cells := range t.rows {
		keys[i], order[i] = keyOfCell(cells[column]), i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &keys[i], &keys[j]
		if c := cmp.Compare(kind(a), kind(b)); c != 0 || kind(a) == missing {
			return c
		}
		if kind(a) == amount {
			return a.amount.Cmp(*b.amount)
		}
		return strings.Compare(a.text, b.text)
	})
	rows := make([][]any, len(order))
	for i, from := range order {
		rows[i] = t.rows[from]
	}
	t.rows = rows
}

// sortKey is what a cell is sorted by.
type sortKey struct {
	amount *resource.Quantity // nil = text
	text   string
}

// keyOfCell is the key of a cell. Of the amounts that it begins with, such as 100m → 250m, 83m..229 or 11 up, the last counts.
func keyOfCell(cell any) sortKey {
	if s, is := cell.(length); is {
		return sortKey{amount: resource.NewQuantity(int64(s), resource.DecimalSI)}
	}
	out := sortKey{text: fmt.Sprint(cell)}
	for _, part := range strings.Fields(strings.ReplaceAll(out.text, "..", " ")) {
		if part == "→" || part == "-" {
			continue
		}
		q, err := quantity.Parse(strings.TrimSuffix(strings.TrimPrefix(part, "+"), "%"))
		if err != nil {
			break
		}
		out.amount = &q
	}
	return out
}

// column is the name of a column as it is compared: any case will do, and a dash or underscore for a space.
func column(name string) string {
	return strings.NewReplacer("-", " ", "_", " ").Replace(strings.ToUpper(name))
}
