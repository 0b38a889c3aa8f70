package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/celvpa/celvpa/controllers/answers"
	"github.com/celvpa/celvpa/explain"
	"github.com/celvpa/celvpa/simulate"
)

func explainForms(r *explain.Report) map[string]func(*page) {
	return map[string]func(*page){
		"table": func(p *page) { printSummary(p, r) },
		"wide":  func(p *page) { printReport(p, r) },
	}
}

// printSummary prints a report for a screen: the verdict, what blocks, the numbers, and the pods with what changes and why.
func printSummary(p *page, r *explain.Report) {
	p.wrapped("", r.Verdict.Text+" ("+r.Verdict.Token+")")
	printSubject(p, r)
	blocks := slices.DeleteFunc(slices.Clone(r.Findings), func(f explain.Finding) bool { return f.Class != explain.Misconfigured && f.Class != explain.Waiting })
	if len(blocks) > 0 {
		p.printf("\n")
	}
	for _, f := range blocks {
		if f.Token == r.Verdict.Token { // the verdict has its text
			p.wrapped("", f.Class+" → "+cmp.Or(f.WayOut, "-"))
			continue
		}
		about := ""
		if f.About != "" {
			about = ", " + f.About
		}
		p.wrapped("", f.Class+": "+f.Token+about+": "+withWayOut(&f))
	}
	printTargets(p, r.Resources)
	printGroups(p, r)
	printUnknown(p, r.Unknown, p.wrapped)
	if left := len(r.Findings) - len(blocks); left > 0 {
		p.printf("\n-o wide shows %s.\n", simulate.Counted(left, "more finding"))
	}
}

// printTargets prints what is recommended for each container, and what set it.
func printTargets(p *page, list []explain.Amounts) {
	if len(list) == 0 {
		return
	}
	p.printf("\n")
	p.row("CONTAINER", "RESOURCE", "P90", "LOWER", "TARGET", "UPPER", "TARGET SET BY")
	for i := range list {
		a := &list[i]
		by := "-"
		if n := len(a.Way); n > 0 {
			by = a.Way[n-1].Path()
		}
		p.row(cmp.Or(a.Container, podRow), a.Resource, percentile(a.Usage, "90"), cmp.Or(a.LowerBound, "-"), cmp.Or(a.Target, "-"), cmp.Or(a.UpperBound, "-"), by)
	}
	p.end()
}

// printGroups prints what happens to the pods and why. Pods with one fate share a paragraph.
func printGroups(p *page, r *explain.Report) {
	namespace, _, _ := strings.Cut(r.VPA, "/")
	pods := map[string][]string{}
	var fates []string
	for i := range r.Pods {
		pod := &r.Pods[i]
		fate := cmp.Or(pod.Action, "-")
		if pod.Rule != "" {
			fate += ", by " + pod.Rule
		}
		if pod.Reason != "" {
			fate += ": " + pod.Reason
		}
		if changes := requestChanges(pod.Change); changes != "" {
			fate += " (" + changes + ")"
		}
		if pods[fate] == nil {
			fates = append(fates, fate)
		}
		pods[fate] = append(pods[fate], strings.TrimPrefix(pod.Pod, namespace+"/"))
	}
	if len(fates) > 0 {
		p.printf("\n")
	}
	for _, fate := range fates {
		p.wrapped("", simulate.Few(pods[fate])+": "+fate)
	}
}

// requestChanges says how requests change; of limits it says only that they do.
func requestChanges(list []answers.Change) string {
	var out []string
	limits := ""
	container := "-"
	for _, change := range list {
		field, isRequest := strings.CutPrefix(change.Field, "requests.")
		if !isRequest {
			limits = "; and limits"
			continue
		}
		text := fmt.Sprintf("%s %s → %s", field, cmp.Or(change.From, answers.Unset), change.To)
		if n := len(out); n > 0 && change.Container == container {
			out[n-1] += ", " + text
			continue
		}
		container = change.Container
		out = append(out, cmp.Or(container, "the pod")+" "+text)
	}
	if len(out) == 0 {
		return strings.TrimPrefix(limits, "; and ")
	}
	return strings.Join(out, "; ") + limits
}

// printReport prints all of a report as text.
func printReport(p *page, r *explain.Report) {
	p.printf("%s (%s)\n", oneLine(r.Verdict.Text), r.Verdict.Token)
	printSubject(p, r)
	printFindings(p, r.Findings)
	printAmounts(p, r.Resources)
	printPods(p, r.Pods)
	printHistory(p, r)
	printProcesses(p, r)
	printUnknown(p, r.Unknown, p.line)
}

func printSubject(p *page, r *explain.Report) {
	if r.VPA != "" {
		p.printf("VerticalPodAutoscaler %s, %s, mode %s, at %s\n", r.VPA, cmp.Or(r.Target, "no target"), r.Mode, stamp(r.Now))
	}
}

// printUnknown prints what could not be found out, each with a function that takes an indent and a text.
func printUnknown(p *page, list []string, write func(indent, text string)) {
	if len(list) == 0 {
		return
	}
	p.printf("\nNot known:\n")
	for _, text := range list {
		write("  ", text)
	}
}

func withWayOut(f *explain.Finding) string {
	if f.WayOut == "" {
		return f.Text
	}
	return f.Text + " → " + f.WayOut
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func printFindings(p *page, findings []explain.Finding) {
	if len(findings) == 0 {
		return
	}
	p.printf("\n")
	p.row("CLASS", "TOKEN", "ABOUT", "WHY")
	for _, f := range findings {
		p.row(f.Class, f.Token, cmp.Or(f.About, "-"), withWayOut(&f))
	}
	p.end()
}

// shown are the percentiles in the table.
var shown = []string{"50", "90", "95"}

func printAmounts(p *page, list []explain.Amounts) {
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

func printPods(p *page, pods []explain.Pod) {
	if len(pods) == 0 {
		return
	}
	p.printf("\n")
	p.row("POD", "ACTION", "RULE", "PRIORITY", "CHANGE", "NODE", "PHASE", "REASON")
	for i := range pods {
		pod := &pods[i]
		changes := make([]string, len(pod.Change))
		for j, change := range pod.Change {
			changes[j] = change.String()
		}
		p.row(pod.Pod, cmp.Or(pod.Action, "-"), cmp.Or(pod.Rule, "-"), pod.Priority, cmp.Or(strings.Join(changes, "; "), "-"),
			cmp.Or(pod.Node, "-"), cmp.Or(pod.Phase, "-"), cmp.Or(pod.Reason, "-"))
	}
	p.end()
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
