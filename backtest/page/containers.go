package page

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/markup"
)

const (
	open     = 2  // containers that are unfolded, on paper too
	compared = 12 // policies that are compared for a container
	closer   = 5  // containers of which there are charts of other policies, too
	shown    = 60 // rows of what happened to a container
	fine     = 50 // containers whose charts have all points; those of others have half as many

	// chartsUntil is the part of a page after which there are no more charts, so that there is room for
	// each container.
	chartsUntil = 0.8
)

// containerList writes the containers, those that fare worst first, a fold each.
func containerList(w *writer) {
	order := make([]int, len(w.main.Containers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return worse(&w.main.Containers[a], &w.main.Containers[b]) })
	drawn := slices.ContainsFunc(w.main.Containers, func(c backtest.Container) bool { return c.Series != nil })
	w.Put("<p>With policy {}; those with most OOM kills come first, then those that were over their request for longest, then those that waste most.", w.main.Name)
	if !drawn {
		w.Put(" This report has no series, so there are no charts.")
	}
	w.Put("</p>\n")
	w.Folds("containers", len(order), markup.Shown, func(from, to int) {
		for i := from; i < to; i++ {
			w.container(order[i], i)
		}
	})
}

// worse orders containers by how they fare.
func worse(a, b *backtest.Container) int {
	return cmp.Or(cmp.Compare(b.OOMs, a.OOMs), cmp.Compare(b.CPU.OverRequestShare+b.Memory.OverRequestShare, a.CPU.OverRequestShare+a.Memory.OverRequestShare),
		cmp.Compare(b.CPU.SlackShare*b.CPU.RequestedCoreHours, a.CPU.SlackShare*a.CPU.RequestedCoreHours))
}

// container writes one, of the index in the policy and at a position in the list.
func (w *writer) container(index, position int) {
	c := &w.main.Containers[index]
	w.Put("<details class=\"container\"")
	if position < open {
		w.Put(" open")
	}
	w.Put("><summary><h3>{} <span class=\"of\">of {} {}/{}</span></h3>", c.Container, c.Kind, c.Namespace, c.Workload)
	w.Put(" <span class=\"brief\">CPU slack <strong>{}</strong></span> <span class=\"brief\">memory slack <strong>{}</strong></span>", share(c.CPU.SlackShare), share(c.Memory.SlackShare))
	if c.OOMs > 0 {
		w.Put(" <span class=\"label bad\">{}</span>", plural(c.OOMs, "OOM kill"))
	}
	w.Put("</summary>\n<article>\n")
	if w.Spent() > chartsUntil {
		w.Put("<p class=\"more\">Its charts are left out: the page would be too large. <code>-o json</code> has them.</p>\n</article></details>\n")
		return
	}
	w.points = Points
	if position >= fine {
		w.points = Points / 2
	}
	w.drawing(w.main, c)
	w.comparison(index)
	if position < closer {
		for i := range w.r.Policies {
			p := &w.r.Policies[i]
			if other := counterpart(p, c, index); p != w.main && p.SameAs == "" && other != nil && other.Series != nil {
				w.Put("<details class=\"fold\"><summary>The same with policy {} <span class=\"of\">{}</span></summary>\n", p.Name, about(p))
				w.drawing(p, other)
				w.Put("</details>\n")
			}
		}
	}
	w.Put("</article></details>\n")
}

// counterpart is the container in the results of another policy, which has it at the same index.
func counterpart(p *backtest.Policy, c *backtest.Container, index int) *backtest.Container {
	if index >= len(p.Containers) {
		return nil
	}
	other := &p.Containers[index]
	if other.Namespace != c.Namespace || other.Kind != c.Kind || other.Workload != c.Workload || other.Container != c.Container {
		return nil
	}
	return other
}

// drawing writes the charts of a container with a policy, and what happened to it.
func (w *writer) drawing(p *backtest.Policy, c *backtest.Container) {
	if c.Series == nil {
		return
	}
	w.Put("<div class=\"charts\">\n")
	w.chart(p, c, resource{"CPU", &c.Series.CPU, false, func(e *backtest.Event) *backtest.Change { return e.CPU }})
	w.chart(p, c, resource{"memory", &c.Series.Memory, true, func(e *backtest.Event) *backtest.Change { return e.Memory }})
	w.Put("</div>\n")
	w.steps(p, c)
}

// comparison writes how the container fares with each policy.
func (w *writer) comparison(index int) {
	c := &w.main.Containers[index]
	name := "container " + c.Container + " of " + c.Namespace + "/" + c.Workload
	w.Put("<details class=\"fold\"><summary>All policies for {}</summary>\n", name)
	w.Table("All policies for "+name, "Policy", "CPU requested", "CPU slack", "Over CPU request", "Throttled", "Memory requested", "Memory slack", "OOM kills", "Evictions", "Resizes")
	for i := range w.r.Policies {
		p := &w.r.Policies[i]
		one := counterpart(p, c, index)
		if one == nil || i >= compared && p != w.main {
			continue
		}
		w.Row()
		w.HeadCell()
		w.Put("<span class=\"nr\">{}</span> {}<small>{}</small></th>", strconv.Itoa(i+1), p.Name, about(p))
		w.Cells(count64(one.CPU.RequestedCoreHours)+" core-hours", share(one.CPU.SlackShare), share(one.CPU.OverRequestShare), count64(one.CPU.ThrottledCoreSeconds)+" core-seconds",
			count64(one.Memory.RequestedGiBHours)+" GiB-hours", share(one.Memory.SlackShare), count(one.OOMs), count(one.Evictions), count(one.Resizes))
		w.Put("</tr>\n")
	}
	w.EndTable()
	w.Put("</details>\n")
}
