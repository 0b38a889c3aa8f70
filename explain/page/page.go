// Package page writes an explanation as one HTML page, with package markup.
package page

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
)

//go:embed viewer.js
var viewer string

// Write writes r as a page.
func Write(out io.Writer, r *explain.Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	var fields any
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	known := amounts{}
	known.add(fields)
	return markup.Page{Title: r.Subject + ": why?", Summary: r.Verdict.Text, Viewer: viewer, Report: r, Charts: known}.Write(out)
}

// amounts are the quantities of a report and changes of them, by their texts, so that the viewer need not read any.
type amounts map[string]amount

type amount struct {
	Value float64 `json:"value"`           // to draw; 0 of a change
	Short string  `json:"short,omitempty"` // as people read it, if that is not the text itself
}

// add adds those of a value of JSON.
func (a amounts) add(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, field := range v {
			a.add(field)
		}
	case []any:
		for _, item := range v {
			a.add(item)
		}
	case string:
		if change, ok := answers.ParseChange(v); ok && change.String() == v && change.Short() != v {
			a[v] = amount{Short: change.Short()}
		} else if q, err := quantity.Parse(v); err == nil {
			a[v] = amount{Value: max(0, q.AsApproximateFloat64())}
			if short := quantity.Short(v); short != v {
				a[v] = amount{Value: a[v].Value, Short: short}
			}
		}
	}
}
