package page

import (
	"slices"
	"strconv"
	"strings"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/markup"
)

// fleets writes a row for each policy.
func fleets(w *writer) {
	w.Put("<p>All workloads together, over the whole history, and in comparison with the manifests. The number is that of the plots below. <span class=\"label good\">unbeaten</span> marks policies that no other one beats: at least as good in footprint, OOM kills and CPU time over request, and better in one of them.</p>\n")
	before := named(w.r, backtest.Manifest)
	priced := w.r.Prices != nil
	columns := []string{"Policy", "CPU core-hours", "CPU slack", "Over CPU request", "Throttled core-seconds", "Memory GiB-hours", "Memory slack", "OOM kills", "Evictions", "Resizes", "Adapts in"}
	if priced {
		columns = slices.Insert(columns, 1, "Cost")
	}
	w.Folds("policies", len(w.r.Policies), markup.Shown, func(from, to int) {
		w.Table("Policies, all workloads together", columns...)
		for i := from; i < to; i++ {
			fleet(w, i, before, priced)
		}
		w.EndTable()
	})
}

func fleet(w *writer, i int, before *backtest.Policy, priced bool) {
	p := &w.r.Policies[i]
	f := &p.Fleet
	w.Row()
	w.HeadCell()
	w.Put("<span id=\"policy-{}\" class=\"nr\">{}</span> {}", strconv.Itoa(i+1), strconv.Itoa(i+1), p.Name)
	if p.Pareto {
		w.Put(" <span class=\"label good\">unbeaten</span>")
	}
	if text := about(p); text != "" {
		w.Put("<small>{}</small>", text)
	}
	w.Put("</th>")
	than := func(now float64, of func(*backtest.Fleet) float64) {
		if before != nil && before != p {
			w.Put("<small>{}</small>", against(now, of(&before.Fleet)))
		}
		w.Put("</td>")
	}
	if priced {
		w.Cell("n")
		if f.Cost == nil {
			w.Put("</td>")
		} else {
			w.Put("{}", count64(*f.Cost))
			than(*f.Cost, func(f *backtest.Fleet) float64 {
				if f.Cost == nil {
					return 0
				}
				return *f.Cost
			})
		}
	}
	w.Cell("n")
	w.Put("{}", count64(f.CPU.RequestedCoreHours))
	than(f.CPU.RequestedCoreHours, func(f *backtest.Fleet) float64 { return f.CPU.RequestedCoreHours })
	w.figure(share(f.CPU.SlackShare), "worst "+share(f.Spread.CPUSlackShare.Worst))
	w.figure(share(f.CPU.OverRequestShare), "worst "+share(f.Spread.CPUOverRequestShare.Worst))
	w.figure(count64(f.CPU.ThrottledCoreSeconds), "")
	w.Cell("n")
	w.Put("{}", count64(f.Memory.RequestedGiBHours))
	than(f.Memory.RequestedGiBHours, func(f *backtest.Fleet) float64 { return f.Memory.RequestedGiBHours })
	w.figure(share(f.Memory.SlackShare), "worst "+share(f.Spread.MemorySlackShare.Worst))
	w.figure(count(f.OOMs), "in "+plural(f.WorkloadsWithOOMs, "workload"))
	w.figure(count(f.Evictions), number(f.EvictionsPerWorkloadDay)+" a day each")
	w.figure(count(f.Resizes), number(f.ResizesPerWorkloadDay)+" a day each")
	if f.AdaptSeconds.Count == 0 {
		w.figure("–", "")
	} else {
		w.figure(long(float64(f.AdaptSeconds.P50)), "95%: "+long(float64(f.AdaptSeconds.P95)))
	}
	w.Put("</tr>\n")
}

// figure writes a number and what is beside it.
func (w *writer) figure(text, beside string) {
	w.Cell("n")
	w.Put("{}<small>{}</small></td>", text, beside)
}

// about is what distinguishes a policy from others of its name.
func about(p *backtest.Policy) string {
	var parts []string
	for _, key := range sorted(p.Params) {
		if strings.Contains(p.Name, key+"="+p.Params[key]) {
			continue
		}
		parts = append(parts, key+"="+p.Params[key])
	}
	if len(p.Enforces) > 0 && !strings.Contains(p.Name, "+"+p.Enforces[0]) {
		parts = append(parts, "enforces "+strings.Join(p.Enforces, ", "))
	}
	if p.SameAs != "" {
		parts = append(parts, "decides as "+p.SameAs+" does")
	}
	return strings.Join(parts, "; ")
}

func sorted(of map[string]string) []string {
	var out []string
	for key := range of {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}
