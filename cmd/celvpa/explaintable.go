package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/simulate"
)

func explainForms(r *explain.Report) map[string]func(*page) {
	return map[string]func(*page){
		"table": func(p *page) { printReport(p, r, false) },
		"wide":  func(p *page) { printReport(p, r, true) },
	}
}

// printReport prints a report as text: the verdict, what blocks, the numbers, the pods.
func printReport(p *page, r *explain.Report, wide bool) {
	p.printf("%s (%s)\n", oneLine(r.Verdict.Text), r.Verdict.Token)
	if r.VPA != "" {
		p.printf("VerticalPodAutoscaler %s, %s, mode %s, at %s\n", r.VPA, cmp.Or(r.Target, "no target"), r.Mode, stamp(r.Now))
	}
	printFindings(p, r.Findings)
	printAmounts(p, r.Resources, wide)
	printPods(p, r.Pods, wide)
	if wide {
		printHistory(p, r)
		printProcesses(p, r)
	}
	printUnknown(p, r.Unknown)
}

func printUnknown(p *page, list []string) {
	if len(list) == 0 {
		return
	}
	p.printf("\nNot known:\n")
	for _, line := range list {
		p.printf("  %s\n", oneLine(line))
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func printFindings(p *page, findings []explain.Finding) {
	if len(findings) == 0 {
		return
	}
	p.printf("\n")
	p.row("CLASS", "TOKEN", "ABOUT", "WHY")
	for _, f := range findings {
		why := f.Text
		if f.WayOut != "" {
			why += " → " + f.WayOut
		}
		p.row(f.Class, f.Token, cmp.Or(f.About, "-"), why)
	}
	p.end()
}

// shown are the percentiles in the table.
var shown = []string{"50", "90", "95"}

func printAmounts(p *page, list []explain.Amounts, wide bool) {
	if len(list) == 0 {
		return
	}
	p.printf("\n")
	p.row("CONTAINER", "RESOURCE", "P50", "P90", "P95", "LAST", "LOWER", "TARGET", "UPPER", "TARGET SET BY")
	for i := range list {
		a := &list[i]
		cells := []any{cmp.Or(a.Container, podRow), a.Resource}
		for _, percent := range shown {
			cells = append(cells, percentile(a.Usage, percent))
		}
		by := "-"
		if n := len(a.Way); n > 0 {
			step := a.Way[n-1]
			by = step.Path() + " (from " + cmp.Or(step.From, "unset") + ")"
		}
		for _, amount := range []string{a.LastUsage, a.LowerBound, a.Target, a.UpperBound} {
			cells = append(cells, cmp.Or(amount, "-"))
		}
		p.row(append(cells, by)...)
	}
	p.end()
	if !wide {
		return
	}
	for i := range list {
		a := &list[i]
		if steps := slices.Concat(a.Way, a.Bounds); len(steps) > 0 {
			about := "container " + a.Container
			if a.Container == "" {
				about = "the pod"
			}
			p.printf("\n%s of %s\n", a.Resource, about)
			p.steps("  ", steps)
		}
	}
}

func percentile(list []answers.Percentile, percent string) string {
	for _, one := range list {
		if one.Percent == percent {
			return one.Amount
		}
	}
	return "-"
}

func printPods(p *page, pods []explain.Pod, wide bool) {
	if len(pods) == 0 {
		return
	}
	p.printf("\n")
	head := []any{"POD", "ACTION", "RULE", "PRIORITY", "CHANGE"}
	if wide {
		head = append(head, "NODE", "PHASE", "REASON")
	}
	p.row(head...)
	for i := range pods {
		pod := &pods[i]
		changes := make([]string, len(pod.Change))
		for j, change := range pod.Change {
			changes[j] = change.String()
		}
		cells := []any{pod.Pod, cmp.Or(pod.Action, "-"), cmp.Or(pod.Rule, "-"), pod.Priority, cmp.Or(strings.Join(changes, "; "), "-")}
		if wide {
			cells = append(cells, cmp.Or(pod.Node, "-"), cmp.Or(pod.Phase, "-"), cmp.Or(pod.Reason, "-"))
		}
		p.row(cells...)
	}
	p.end()
	if !wide {
		return
	}
	for i := range pods {
		if len(pods[i].Steps) > 0 {
			p.printf("\n%s\n", oneLine(pods[i].Pod))
			p.steps("  ", pods[i].Steps)
		}
	}
}

// printHistory prints what the processes decided, and the events.
func printHistory(p *page, r *explain.Report) {
	if len(r.Decisions) > 0 {
		p.printf("\n")
		p.row("TIME", "BY", "POD", "DECISION", "RULE", "WHY", "ID")
		for _, d := range r.Decisions {
			why := strings.Join(append(slices.Clone(d.Changes), d.Reason), "; ")
			p.row(stamp(d.Time), d.Component, cmp.Or(d.Pod, "-"), d.Action, cmp.Or(d.Rule, "-"), strings.Trim(why, "; "), d.ID)
		}
		p.end()
	}
	if len(r.Events) > 0 {
		p.printf("\n")
		p.row("TIME", "TYPE", "EVENT", "MESSAGE")
		for _, e := range r.Events {
			p.row(stamp(e.Time), e.Type, e.Reason, e.Message)
		}
		p.end()
		if r.EventsCut > 0 {
			p.printf("%s left out.\n", simulate.Counted(r.EventsCut, "older event"))
		}
	}
}

// printProcesses prints the processes with their rules, or those of the report if none was asked.
func printProcesses(p *page, r *explain.Report) {
	list := r.Processes
	if len(list) == 0 && r.Rules.Digest != "" {
		list = []answers.Process{{Component: "this program", Instance: "-", Version: newBuildInfo().Version, Rules: r.Rules}}
	}
	if len(list) == 0 {
		return
	}
	p.printf("\n")
	p.row("PROCESS", "INSTANCE", "VERSION", "RULES", "DIGEST", "OVERLAYS")
	for _, one := range list {
		p.row(one.Component, one.Instance, one.Version, one.Rules.Pipeline, one.Rules.Digest, cmp.Or(strings.Join(one.Rules.Overlays, ", "), "-"))
	}
	p.end()
}
