package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/celvpa/celvpa/controllers/recommender"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
	"github.com/celvpa/celvpa/engine"
)

// recommendReport is what celvpa recommend prints as YAML and JSON. Scripts depend on its names.
type recommendReport struct {
	Items  []vpav1.VerticalPodAutoscaler `json:"items"`  // as written, with their status
	Traces []recommendTrace              `json:"traces"` // of all containers, with --explain
}

// recommendTrace tells how one recommendation came about.
type recommendTrace struct {
	VPA       string        `json:"vpa"`       // namespace/name
	Container string        `json:"container"` // empty = the pod as a whole
	Steps     []engine.Step `json:"steps"`
}

// report evaluates every VPA.
func (r *recommendation) report(explain bool) *recommendReport {
	out := &recommendReport{Items: []vpav1.VerticalPodAutoscaler{}, Traces: []recommendTrace{}}
	for _, w := range r.state.Workloads() {
		v := r.written[w.VPA.UID]
		v.Status = *r.state.Status(w, r.now)
		out.Items = append(out.Items, v)
		if !explain {
			continue
		}
		for _, one := range r.state.Explain(w) {
			out.Traces = append(out.Traces, newRecommendTrace(w, one))
		}
	}
	return out
}

func newRecommendTrace(w *recommender.Workload, one recommender.Explanation) recommendTrace {
	return recommendTrace{VPA: w.String(), Container: one.Container, Steps: append([]engine.Step{}, one.Steps...)}
}

// lacking reports whether a VPA has no recommendation, or one that its rules did not make.
func (r *recommendReport) lacking() bool {
	for i := range r.Items {
		for _, c := range r.Items[i].Status.Conditions {
			if (c.Type == vpav1.RecommendationProvided || c.Type == vpav1.RulesApplied) && c.Status != corev1.ConditionTrue {
				return true
			}
		}
	}
	return false
}

func (r *recommendReport) writeJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

func (r *recommendReport) writeYAML(out io.Writer) error {
	text, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// podRow stands in the table where a container would.
const podRow = "(pod)"

func (r *recommendReport) writeTable(to io.Writer) error {
	if len(r.Items) == 0 {
		return nil
	}
	out := bufio.NewWriter(to)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tVPA\tCONTAINER\tTARGET-CPU\tTARGET-MEMORY\tLOWER-CPU\tLOWER-MEMORY\tUPPER-CPU\tUPPER-MEMORY\tUNCAPPED-CPU\tUNCAPPED-MEMORY")
	for i := range r.Items {
		v := &r.Items[i]
		row := func(container string, bounds ...corev1.ResourceList) {
			fmt.Fprintf(table, "%s\t%s\t%s", v.Namespace, v.Name, container)
			for _, bound := range bounds {
				fmt.Fprintf(table, "\t%s\t%s", quantityText(bound, corev1.ResourceCPU), quantityText(bound, corev1.ResourceMemory))
			}
			fmt.Fprintln(table)
		}
		recommended := v.Status.Recommendation
		if recommended == nil || (len(recommended.ContainerRecommendations) == 0 && recommended.PodRecommendation == nil) {
			row("-", nil, nil, nil, nil)
			continue
		}
		for _, c := range recommended.ContainerRecommendations {
			row(c.ContainerName, c.Target, c.LowerBound, c.UpperBound, c.UncappedTarget)
		}
		if p := recommended.PodRecommendation; p != nil {
			row(podRow, p.Target, p.LowerBound, p.UpperBound, p.UncappedTarget)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	r.writeConditions(out)
	for _, t := range r.Traces {
		if len(t.Steps) == 0 { // as of a pod for which no rule runs
			continue
		}
		about := "container " + t.Container
		if t.Container == "" {
			about = "the pod"
		}
		fmt.Fprintf(out, "\n%s, %s\n", t.VPA, about)
		if err := engine.Explain(out, "  ", t.Steps); err != nil {
			return err
		}
	}
	return out.Flush()
}

func quantityText(list corev1.ResourceList, name corev1.ResourceName) string {
	if q, ok := list[name]; ok {
		return q.String()
	}
	return "-"
}

// writeConditions prints those that say more than that all is well. LowConfidence, which all have that are young, is one line.
func (r *recommendReport) writeConditions(out io.Writer) {
	var lines, unsure []string
	for i := range r.Items {
		v := &r.Items[i]
		name := v.Namespace + "/" + v.Name
		for _, c := range v.Status.Conditions {
			isTrue := c.Status == corev1.ConditionTrue
			fine := c.Type == vpav1.RecommendationProvided && isTrue && c.Message == "" ||
				c.Type == vpav1.RulesApplied && isTrue && !strings.ContainsAny(c.Message, ",;") // overlays are worth a line
			switch {
			case c.Type == vpav1.LowConfidence && isTrue:
				unsure = append(unsure, name)
			case fine:
			case c.Message == "":
				lines = append(lines, fmt.Sprintf("%s: %s=%s", name, c.Type, c.Status))
			default:
				lines = append(lines, fmt.Sprintf("%s: %s=%s: %s", name, c.Type, c.Status, c.Message))
			}
		}
	}
	if len(unsure) > 0 {
		lines = append(lines, unsureText+strings.Join(atMost(toldNames, unsure), ", "))
	}
	if len(lines) > 0 {
		fmt.Fprintf(out, "\n%s\n", strings.Join(lines, "\n"))
	}
}

// unsureText begins the line of condition LowConfidence.
const unsureText = "LowConfidence: little usage is known yet, and bounds are wide: "

// toldNames is how many of a kind are named.
const toldNames = 5

// atMost are the first of names, and an ellipsis where there are more.
func atMost(n int, names []string) []string {
	if len(names) <= n {
		return names
	}
	return append(slices.Clone(names[:n]), "…")
}
