package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"

	"github.com/celvpa/celvpa/engine"
)

// planReport is what celvpa plan -o json prints. Scripts depend on its names.
type planReport struct {
	Items []planItem `json:"items"`

	explained bool
}

// planItem is one pod.
type planItem struct {
	Pod      string        `json:"pod"`    // namespace/name
	VPA      string        `json:"vpa"`    // namespace/name; empty = none
	Action   string        `json:"action"` // Evict, InPlace, Wait or Skip
	Rule     string        `json:"rule"`   // set/rule; empty = no rule was asked
	Reason   string        `json:"reason"`
	Priority *planPriority `json:"priority,omitempty"` // none for pods that were not compared with a recommendation
	Change   []planChange  `json:"change,omitempty"`   // what the rules want otherwise, whether it is done now or not
	Steps    []engine.Step `json:"steps,omitempty"`    // with --explain

	pod *corev1.Pod
	why string // why the VPA, or none, changes it
}

// planPriority is how far a pod is from its recommendation.
type planPriority struct {
	OutsideRecommendedRange bool       `json:"outsideRecommendedRange"`
	ScaleUp                 bool       `json:"scaleUp"`
	ResourceDiff            planNumber `json:"resourceDiff"`
}

// planNumber is null in JSON where rules made it what JSON has no number for.
type planNumber float64

// MarshalJSON implements json.Marshaler.
func (n planNumber) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// planChange is an amount that a pod would be given.
type planChange struct {
	Container string `json:"container,omitempty"` // empty = the pod as a whole
	Field     string `json:"field"`               // e.g. requests.cpu
	From      string `json:"from,omitempty"`      // empty = it is not set
	To        string `json:"to"`
}

// String is the change in words.
func (c planChange) String() string {
	what := "container " + c.Container
	if c.Container == "" {
		what = "the pod"
	}
	return fmt.Sprintf("%s: %s %s → %s", what, c.Field, cmp.Or(c.From, "unset"), c.To)
}

func (r *planReport) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

func (r *planReport) writeTable(to io.Writer) error {
	if len(r.Items) == 0 {
		return nil
	}
	out := bufio.NewWriter(to)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POD\tVPA\tACTION\tRULE\tPRIORITY\tREASON")
	for i := range r.Items {
		item := &r.Items[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(item.Pod), oneLine(cmp.Or(item.VPA, "-")), item.Action, oneLine(cmp.Or(item.Rule, "-")), item.Priority, oneLine(item.Reason))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range r.Items {
		if !r.explained {
			break
		}
		if err := r.Items[i].explain(out); err != nil {
			return err
		}
	}
	return out.Flush()
}

// explain tells how a pod came to its line.
func (i *planItem) explain(out io.Writer) error {
	rule := ""
	if i.Rule != "" {
		rule = " (" + oneLine(i.Rule) + ")"
	}
	fmt.Fprintf(out, "\n%s: %s%s: %s\n  %s\n", oneLine(i.Pod), i.Action, rule, oneLine(i.Reason), oneLine(i.why))
	for _, c := range i.Change {
		fmt.Fprintf(out, "  %s\n", c)
	}
	if len(i.Steps) == 0 {
		return nil
	}
	return engine.Explain(out, "  ", i.Steps)
}

// String is the priority in a column: how far the pod is from its target, whether it needs more of something, and whether it is
// outside the recommended range.
func (p *planPriority) String() string {
	if p == nil {
		return "-"
	}
	words := []string{strconv.FormatFloat(math.Round(float64(p.ResourceDiff)*1000)/1000, 'f', -1, 64)}
	if p.ScaleUp {
		words = append(words, "up")
	}
	if p.OutsideRecommendedRange {
		words = append(words, "outside")
	}
	return strings.Join(words, " ")
}

// oneLine keeps a text within a cell.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
