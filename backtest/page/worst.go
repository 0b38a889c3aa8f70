package page

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/celvpa/celvpa/backtest"
)

// ranked is how many workloads each list names.
const ranked = 10

// listing is a list of the worst workloads, by one measure.
type listing struct {
	title, none string
	of          func(*backtest.Workload) float64
	text        func(*backtest.Workload) string
}

var listings = []listing{
	{"Killed most often", "No container was killed for memory.", func(m *backtest.Workload) float64 { return float64(m.OOMs) },
		func(m *backtest.Workload) string { return plural(m.OOMs, "OOM kill") }},
	{"Longest over the CPU request", "No container used more CPU than it requested.", func(m *backtest.Workload) float64 { return m.CPU.OverRequestShare },
		func(m *backtest.Workload) string { return share(m.CPU.OverRequestShare) + " of the time" }},
	{"Most CPU reserved and not used", "No CPU was reserved and not used.", func(m *backtest.Workload) float64 { return unusedCPU(m) },
		func(m *backtest.Workload) string {
			return count64(unusedCPU(m)) + " core-hours, " + share(m.CPU.SlackShare)
		}},
	{"Most memory reserved and not used", "No memory was reserved and not used.", func(m *backtest.Workload) float64 { return unusedMemory(m) },
		func(m *backtest.Workload) string {
			return count64(unusedMemory(m)) + " GiB-hours, " + share(m.Memory.SlackShare)
		}},
	{"Evicted most often", "No pod was evicted.", func(m *backtest.Workload) float64 { return float64(m.Evictions) },
		func(m *backtest.Workload) string { return plural(m.Evictions, "eviction") }},
}

func unusedCPU(m *backtest.Workload) float64 { return m.CPU.SlackShare * m.CPU.RequestedCoreHours }

func unusedMemory(m *backtest.Workload) float64 {
	return m.Memory.SlackShare * m.Memory.RequestedGiBHours
}

// worst lists the workloads that fare worst, and how they fare with the manifests.
func worst(w *writer) {
	before := map[place]*backtest.Workload{}
	if p := named(w.r, backtest.Manifest); p != nil && p != w.main {
		for i := range p.Workloads {
			before[placeOf(&p.Workloads[i])] = &p.Workloads[i]
		}
	}
	w.Put("<p>With policy {}, and in comparison with the requests in the manifests.</p>\n<div class=\"lists\">\n", w.main.Name)
	for _, l := range listings {
		list := make([]*backtest.Workload, 0, len(w.main.Workloads))
		for i := range w.main.Workloads {
			if m := &w.main.Workloads[i]; l.of(m) > 0 {
				list = append(list, m)
			}
		}
		slices.SortStableFunc(list, func(a, b *backtest.Workload) int { return cmp.Compare(l.of(b), l.of(a)) })
		w.Put("<div><h3>{}</h3>\n", l.title)
		if len(list) == 0 {
			w.Put("<p class=\"none\">{}</p></div>\n", l.none)
			continue
		}
		w.Table(l.title, "Workload", "Policy "+w.main.Name, "With the manifests")
		for _, m := range list[:min(len(list), ranked)] {
			w.Row()
			w.HeadCell()
			w.Put("{}<small>{} {}</small></th>", m.Workload, m.Namespace, m.Kind)
			was := "–"
			if b := before[placeOf(m)]; b != nil {
				was = l.text(b)
			}
			w.Cells(l.text(m), was)
			w.Put("</tr>\n")
		}
		w.EndTable()
		if n := len(list) - ranked; n > 0 {
			w.Put("<p class=\"more\">and {} others</p>\n", strconv.Itoa(n))
		}
		w.Put("</div>\n")
	}
	w.neverUpdated()
	w.Put("</div>\n")
}

// neverUpdated lists the workloads of which no running pod was changed, and why.
func (w *writer) neverUpdated() {
	var list []*backtest.Workload
	for i := range w.main.Workloads {
		if m := &w.main.Workloads[i]; m.NeverUpdated != nil {
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		return
	}
	const title = "Never evicted or resized"
	w.Put("<div><h3>{}</h3>\n", title)
	w.Table(title, "Workload", "Why")
	for _, m := range list[:min(len(list), ranked)] {
		w.Row()
		w.HeadCell()
		w.Put("{}<small>{} {}</small></th>", m.Workload, m.Namespace, m.Kind)
		w.Cell("")
		w.Put("{}<small><code>{}</code></small></td></tr>\n", m.NeverUpdated.Reason, m.NeverUpdated.Rule)
	}
	w.EndTable()
	if n := len(list) - ranked; n > 0 {
		w.Put("<p class=\"more\">and {} others</p>\n", strconv.Itoa(n))
	}
	w.Put("</div>\n")
}

// place is a workload.
type place struct{ namespace, kind, workload string }

func placeOf(m *backtest.Workload) place { return place{m.Namespace, m.Kind, m.Workload} }
