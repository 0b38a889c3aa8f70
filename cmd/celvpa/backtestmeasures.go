package main

import (
	"fmt"

	"github.com/celvpa/celvpa/backtest"
)

// fleetCells are the cells of a policy. Requests are means over the window.
func fleetCells(policy *backtest.Policy, hours float64, wide bool) []any {
	m := &policy.Fleet.Measures
	out := append([]any{policy.Name}, measureCells(m, hours, wide)...)
	if m.Cost != nil {
		out = append(out, fmt.Sprintf("%.2f", *m.Cost))
	}
	return out
}

// measureColumns are the columns of measures; not all fit on a screen.
var measureColumns = []struct {
	name string
	wide bool // left out otherwise
	cell func(m *backtest.Measures, hours float64) any
}{
	{"CORES", false, func(m *backtest.Measures, hours float64) any { return number(over(m.CPU.RequestedCoreHours, hours)) }},
	{"CPU-SLACK", false, func(m *backtest.Measures, _ float64) any { return percentOf(m.CPU.SlackShare) }},
	{"CPU-OVER", false, func(m *backtest.Measures, _ float64) any { return percentOf(m.CPU.OverRequestShare) }},
	{"THROTTLED", true, func(m *backtest.Measures, _ float64) any { return number(m.CPU.ThrottledCoreSeconds / 3600) }},
	{"GIB", false, func(m *backtest.Measures, hours float64) any { return number(over(m.Memory.RequestedGiBHours, hours)) }},
	{"MEM-SLACK", false, func(m *backtest.Measures, _ float64) any { return percentOf(m.Memory.SlackShare) }},
	{"MEM-OVER", false, func(m *backtest.Measures, _ float64) any { return percentOf(m.Memory.OverRequestShare) }},
	{"OOMS", false, func(m *backtest.Measures, _ float64) any { return m.OOMs }},
	{"EVICTIONS", false, func(m *backtest.Measures, _ float64) any { return m.Evictions }},
	{"RESIZES", false, func(m *backtest.Measures, _ float64) any { return m.Resizes }},
	{"FLAPS", true, func(m *backtest.Measures, _ float64) any { return m.Flaps }},
	{"FIRST", true, func(m *backtest.Measures, _ float64) any {
		if m.FirstRecommendationSeconds == nil {
			return "-"
		}
		return length(*m.FirstRecommendationSeconds)
	}},
}

// measureHead is above measureCells.
func measureHead(wide bool) (out []string) {
	for _, c := range measureColumns {
		if wide || !c.wide {
			out = append(out, c.name)
		}
	}
	return out
}

func measureCells(m *backtest.Measures, hours float64, wide bool) (out []any) {
	for _, c := range measureColumns {
		if wide || !c.wide {
			out = append(out, c.cell(m, hours))
		}
	}
	return out
}
