package main

import (
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/cmd/celvpa/manifests"
	"github.com/celvpa/celvpa/webhook/vpareview"
)

// validateReport is what celvpa validate -o json prints. Scripts depend on its names.
type validateReport struct {
	Items []validateItem `json:"items"`
}

// validateItem is one VerticalPodAutoscaler.
type validateItem struct {
	Object   string          `json:"object"` // namespace/name
	Source   string          `json:"source"` // file:line
	Allowed  bool            `json:"allowed"`
	Causes   []validateCause `json:"causes"`
	Warnings []validateCause `json:"warnings"`
}

// validateCause is a vpareview.Cause whose field is there even when it is empty.
type validateCause struct {
	Rule    string           `json:"rule"`
	Field   string           `json:"field"`
	Reason  metav1.CauseType `json:"reason"`
	Message string           `json:"message"`
}

func (c validateCause) String() string { return vpareview.Cause(c).String() }

func (r *validateReport) add(d manifests.Document, answer vpareview.Answer) {
	r.Items = append(r.Items, validateItem{
		Object: d.Key(), Source: d.Source.String(), Allowed: answer.Allowed(),
		Causes: validateCauses(answer.Causes), Warnings: validateCauses(answer.Warnings),
	})
}

func validateCauses(list []vpareview.Cause) []validateCause {
	out := make([]validateCause, 0, len(list))
	for _, c := range list {
		out = append(out, validateCause(c))
	}
	return out
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

func (r *validateReport) writeText(out io.Writer) error {
	for _, item := range r.Items {
		verdict := "allowed"
		if !item.Allowed {
			verdict = "refused"
		}
		if _, err := fmt.Fprintf(out, "%s: %s (%s)\n", item.Object, verdict, item.Source); err != nil {
			return err
		}
		for _, c := range item.Causes {
			fmt.Fprintf(out, "  %s\n", c)
		}
		for _, c := range item.Warnings {
			fmt.Fprintf(out, "  warning: %s\n", c)
		}
	}
	return nil
}

func (r *validateReport) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}
