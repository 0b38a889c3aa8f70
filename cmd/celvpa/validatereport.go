package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/celvpa/celvpa/simulate/manifests"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// validateReport is what celvpa validate -o json prints. Scripts depend on its names.
type validateReport struct {
	Items []validateItem `json:"items"`
}

// validateItem is one VerticalPodAutoscaler.
type validateItem struct {
	Object   string            `json:"object"` // namespace/name
	Source   string            `json:"source"` // file:line
	Allowed  bool              `json:"allowed"`
	Causes   []vpareview.Cause `json:"causes"`
	Warnings []vpareview.Cause `json:"warnings"`
}

func (r *validateReport) add(d manifests.Document, answer vpareview.Answer) {
	r.Items = append(r.Items, validateItem{
		Object: d.Key(), Source: d.Source.String(), Allowed: answer.Allowed(),
		Causes: listed(answer.Causes), Warnings: listed(answer.Warnings),
	})
}

// listed is never null in JSON.
func listed(causes []vpareview.Cause) []vpareview.Cause {
	return append([]vpareview.Cause{}, causes...)
}

// refused reports whether an object would be refused.
func (r *validateReport) refused() bool {
	for _, item := range r.Items {
		if !item.Allowed {
			return true
		}
	}
	return false
}

func (r *validateReport) writeText(to io.Writer) error {
	out := bufio.NewWriter(to)
	for _, item := range r.Items {
		verdict := "allowed"
		if !item.Allowed {
			verdict = "refused"
		}
		fmt.Fprintf(out, "%s: %s (%s)\n", item.Object, verdict, item.Source)
		for _, c := range item.Causes {
			fmt.Fprintf(out, "  %s\n", c)
		}
		for _, c := range item.Warnings {
			fmt.Fprintf(out, "  warning: %s\n", c)
		}
	}
	return out.Flush()
}

func (r *validateReport) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}
