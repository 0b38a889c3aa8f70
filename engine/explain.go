package engine

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Explain prints steps as a table: what changed, from what to what, by which rule and why.
func Explain(w io.Writer, indent string, steps []Step) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%sITEM\tFIELD\tFROM\tTO\tRULE\tAT\tWHY\n", indent)
	for _, s := range steps {
		field, from, to, why := s.Field, s.From, s.To, s.Reason
		switch {
		case s.Error != "":
			why = "failed: " + s.Error
		case field == "" && to != "":
			field = "do"
		}
		if s.Overlay != "" {
			why = trimJoin(why, "overlay "+s.Overlay)
		}
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", indent, dash(s.Item), dash(field), dash(from), dash(to), s.Path(), s.At, dash(why))
	}
	return table.Flush()
}

func trimJoin(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
