// Package page writes an explanation as one HTML page, with package markup.
package page

import (
	_ "embed"
	"encoding/json"
	"io"
	"math"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/crds/quantity"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/markup"
)

//go:embed viewer.js
var viewer string

// Write writes r as a page.
func Write(out io.Writer, r *explain.Report) error {
	known := amounts{}
	if text, err := json.Marshal(r); err == nil { // else writing the page fails
		var fields any
		_ = json.Unmarshal(text, &fields)
		known.add(fields)
	}
	return markup.Page{Title: r.Subject + ": why?", Summary: r.Verdict.Text, Viewer: viewer, Report: r, Charts: known}.Write(out)
}

// amounts are the quantities of a report and changes of them, by their texts, so that the viewer need not read any.
type amounts map[string]amount

type amount struct {
	Value float64 `json:"value"` // to draw; 0 of a change
	Short string  `json:"short"` // as people read it
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
		if change, ok := answers.ParseChange(v); ok && change.String() == v {
			a[v] = amount{Short: change.Short()}
		} else if q, err := quantity.Parse(v); err == nil {
			a[v] = amount{min(max(0, q.AsApproximateFloat64()), math.MaxInt64), quantity.Short(v)}
		}
	}
}
