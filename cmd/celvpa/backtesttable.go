package main

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/simulate"
)

// worstRows is how many containers the table shows of each policy.
const worstRows = 5

func printBacktest(p *page, r *backtest.Report, wide bool) {
	printWindow(p, r)
	head := []any{"POLICY", "CORES", "CPU-SLACK", "CPU-OVER", "THROTTLED", "GIB", "MEM-SLACK", "MEM-OVER", "OOMS", "EVICTIONS", "RESIZES", "FLAPS", "FIRST"}
	if r.Prices != nil {
		head = append(head, "COST")
	}
	p.row(append(head, "FRONT")...)
	hours := float64(r.Window.Seconds) / 3600
	for i := range r.Policies {
		one := &r.Policies[i]
		p.row(append(fleetCells(r, one, hours), mark(one.Pareto))...)
	}
	p.printf("\nContainers: the middle, the 95th percentile and the worst.\n")
	p.row("POLICY", "CPU-SLACK", "CPU-OVER", "MEM-SLACK", "MEM-OVER", "OOMS", "EVICTIONS/DAY")
	for i := range r.Policies {
		s := &r.Policies[i].Fleet.Spread
		p.row(r.Policies[i].Name, three(s.CPUSlackShare, percentOf), three(s.CPUOverRequestShare, percentOf), three(s.MemorySlackShare, percentOf),
			three(s.MemOverRequestShare, percentOf), three(s.OOMs, number), three(s.EvictionsPerDay, number))
	}
	printContainers(p, r, hours, wide)
	p.printf("\nWhat these figures rest on:\n")
	for _, text := range r.Modelled {
		p.printf("- %s\n", text)
	}
}

func printWindow(p *page, r *backtest.Report) {
	first := &r.Policies[0]
	p.printf("%s to %s, %s: %s, %s.\n", r.Window.From.Format(time.RFC3339), r.Window.To.Format(time.RFC3339),
		lengthText(r.Window.Seconds), simulate.Counted(len(first.Workloads), "workload"), simulate.Counted(len(first.Containers), "container"))
	for i := range r.Policies {
		if one := &r.Policies[i]; one.SameAs != "" {
			p.printf("%s decides as %s does.\n", one.Name, one.SameAs)
		}
	}
	p.printf("\n")
}

// fleetCells are the cells of a policy. Requests are means over the window.
func fleetCells(r *backtest.Report, one *backtest.Policy, hours float64) []any {
	m := &one.Fleet.Measures
	out := append([]any{one.Name}, measureCells(m, hours)...)
	if m.Cost != nil {
		out = append(out, fmt.Sprintf("%.2f", *m.Cost))
	}
	return out
}

func measureCells(m *backtest.Measures, hours float64) []any {
	first := "-"
	if m.FirstRecommendationSeconds != nil {
		first = lengthText(*m.FirstRecommendationSeconds)
	}
	return []any{
		number(over(m.CPU.RequestedCoreHours, hours)), percentOf(m.CPU.SlackShare), percentOf(m.CPU.OverRequestShare), number(m.CPU.ThrottledCoreSeconds / 3600),
		number(over(m.Memory.RequestedGiBHours, hours)), percentOf(m.Memory.SlackShare), percentOf(m.Memory.OverRequestShare),
		m.OOMs, m.Evictions, m.Resizes, m.Flaps, first,
	}
}

func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func three(q backtest.Quantiles, write func(float64) string) string {
	return write(q.P50) + " " + write(q.P95) + " " + write(q.Worst)
}

// printContainers prints the worst containers of each policy but those of sweeps, or all of all.
func printContainers(p *page, r *backtest.Report, hours float64, wide bool) {
	for i := range r.Policies {
		one := &r.Policies[i]
		if one.SameAs != "" || !wide && (one.Name == backtest.Hindsight || one.Params != nil) {
			continue
		}
		list, title := slices.Clone(one.Containers), "All containers"
		if !wide {
			slices.SortStableFunc(list, func(a, b backtest.Container) int { return compareWorst(&a, &b) })
			list = list[:min(len(list), worstRows)]
			title = "The containers with the most OOMs and slack"
		}
		names := one.Name
		for _, other := range r.Policies {
			if other.SameAs == one.Name {
				names += ", " + other.Name
			}
		}
		p.printf("\n%s by policy %s:\n", title, names)
		p.row("NAMESPACE", "WORKLOAD", "CONTAINER", "CORES", "CPU-SLACK", "CPU-OVER", "THROTTLED", "GIB", "MEM-SLACK", "MEM-OVER", "OOMS", "EVICTIONS", "RESIZES", "FLAPS", "FIRST")
		for j := range list {
			c := &list[j]
			p.row(append([]any{c.Namespace, c.Workload, c.Container}, measureCells(&c.Measures, hours)...)...)
		}
		if left := len(one.Containers) - len(list); left > 0 {
			p.printf("… and %s; -o wide has all\n", simulate.Counted(left, "other container"))
		}
		printNeverUpdated(p, one, wide)
	}
}

// printNeverUpdated says of which workloads a policy never changed a running pod, by reason.
func printNeverUpdated(p *page, one *backtest.Policy, wide bool) {
	of := map[string][]string{}
	for i := range one.Workloads {
		if w := &one.Workloads[i]; w.NeverUpdated != nil {
			why := w.NeverUpdated.Reason + " (" + w.NeverUpdated.Rule + ")"
			of[why] = append(of[why], w.Namespace+"/"+w.Workload)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(of)) {
		list, more := of[why], ""
		if left := len(list) - worstRows; left > 0 && !wide {
			list, more = list[:worstRows], fmt.Sprintf(" and %d more", left)
		}
		p.printf("No pod was ever evicted or resized of %s%s: %s\n", strings.Join(list, ", "), more, why)
	}
}

// compareWorst puts containers with OOMs first, then those with the most slack, a core counting as 4 GiB.
func compareWorst(a, b *backtest.Container) int {
	slack := func(c *backtest.Container) float64 { return c.CPU.SlackMean + c.Memory.SlackMeanBytes/(4<<30) }
	switch {
	case a.OOMs != b.OOMs:
		return b.OOMs - a.OOMs
	case slack(a) > slack(b):
		return -1
	case slack(a) < slack(b):
		return 1
	}
	return 0
}

func mark(is bool) string {
	if is {
		return "*"
	}
	return "-"
}

// percentOf writes a share with one digit.
func percentOf(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// number writes a figure with three digits at most.
func number(value float64) string {
	return strconv.FormatFloat(value, 'g', max(3, len(strconv.Itoa(int(value)))), 64)
}

// lengthText writes a time in days and hours, or in smaller units.
func lengthText(seconds int64) string {
	const day = 24 * 3600
	switch {
	case seconds >= day && seconds%day < 3600:
		return fmt.Sprintf("%dd", seconds/day)
	case seconds >= day:
		return fmt.Sprintf("%dd%dh", seconds/day, seconds%day/3600)
	}
	text := (time.Duration(seconds) * time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// printBacktestCSV writes a row for each container and policy, and one for each fleet, whose namespace,
// workload and container are empty.
func printBacktestCSV(p *page, r *backtest.Report) {
	out := csv.NewWriter(p)
	head := []string{"policy", "namespace", "workload", "kind", "container",
		"cpu_slack_mean", "cpu_slack_share", "cpu_over_request_share", "cpu_throttled_core_seconds", "cpu_requested_core_hours", "cpu_used_core_hours",
		"memory_slack_mean_bytes", "memory_slack_share", "memory_over_request_share", "memory_requested_gib_hours", "memory_used_gib_hours",
		"ooms", "evictions", "resizes", "flaps", "first_recommendation_seconds", "adapt_seconds_p50", "adapt_seconds_worst", "observed_seconds", "cost"}
	p.fail(out.Write(head))
	for i := range r.Policies {
		one := &r.Policies[i]
		for j := range one.Containers {
			c := &one.Containers[j]
			p.fail(out.Write(append([]string{one.Name, c.Namespace, c.Workload, c.Kind, c.Container}, measureRow(&c.Measures)...)))
		}
		p.fail(out.Write(append([]string{one.Name, "", "", "", ""}, measureRow(&one.Fleet.Measures)...)))
	}
	out.Flush()
	p.fail(out.Error())
}

func measureRow(m *backtest.Measures) []string {
	f := func(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }
	first, cost := "", ""
	if m.FirstRecommendationSeconds != nil {
		first = strconv.FormatInt(*m.FirstRecommendationSeconds, 10)
	}
	if m.Cost != nil {
		cost = f(*m.Cost)
	}
	return []string{
		f(m.CPU.SlackMean), f(m.CPU.SlackShare), f(m.CPU.OverRequestShare), f(m.CPU.ThrottledCoreSeconds), f(m.CPU.RequestedCoreHours), f(m.CPU.UsedCoreHours),
		f(m.Memory.SlackMeanBytes), f(m.Memory.SlackShare), f(m.Memory.OverRequestShare), f(m.Memory.RequestedGiBHours), f(m.Memory.UsedGiBHours),
		strconv.Itoa(m.OOMs), strconv.Itoa(m.Evictions), strconv.Itoa(m.Resizes), strconv.Itoa(m.Flaps), first,
		strconv.FormatInt(m.AdaptSeconds.P50, 10), strconv.FormatInt(m.AdaptSeconds.Worst, 10), f(m.ObservedSeconds), cost,
	}
}
