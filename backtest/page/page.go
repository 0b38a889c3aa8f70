// Package page writes a backtest as one HTML page, with package markup. It shows a report and decides
// nothing: what a number means is said where it is measured, in package backtest.
package page

import (
	_ "embed"
	"io"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/markup"
)

//go:embed style.css
var style string

// writer writes what backtests have.
type writer struct {
	*markup.Writer
	r    *backtest.Report
	main *backtest.Policy // the one that is looked at closely; nil without any

	points int // of a line of a chart
}

// Write writes r as a page. Series of containers, where the report has them, become charts.
func Write(out io.Writer, r *backtest.Report) error {
	w := &writer{Writer: markup.NewWriter(out), r: r, main: looked(r)}
	of := func(write func(*writer)) func() { return func() { write(w) } }
	containers := 0
	if w.main != nil {
		containers = len(w.main.Containers)
	}
	w.Head("celvpa backtest, "+markup.Period(r.Window.From, r.Window.To), style)
	w.Body(of(headline), []markup.Section{
		{ID: "policies", Title: "Policies", Count: len(r.Policies), Write: of(fleets), Empty: len(r.Policies) == 0},
		{ID: "tradeoff", Title: "What saving costs", Write: of(tradeoffs), Empty: len(r.Policies) < 2},
		{ID: "worst", Title: "Worst workloads", Write: of(worst), Empty: containers == 0},
		{ID: "containers", Title: "Containers over time", Count: containers, Write: of(containerList), Empty: containers == 0},
		{ID: "modelled", Title: "What the numbers rest on", Write: of(modelled)},
	}, func() {
		w.Put("Written by <code>celvpa backtest -o html</code>. The page loads nothing. <code>-o json</code> has all numbers, unrounded.")
	})
	return w.Finish()
}

// isBaseline: a policy that every backtest has, and that nobody proposes.
func isBaseline(p *backtest.Policy) bool {
	return p.Name == backtest.Manifest || p.Name == backtest.Hindsight
}

// looked is the policy that is looked at closely: the first that somebody proposes and that is no
// value of a sweep, else the shipped one, else the first of a sweep.
func looked(r *backtest.Report) *backtest.Policy {
	var best *backtest.Policy
	rank := 0
	for i := range r.Policies {
		p := &r.Policies[i]
		of := 5
		switch {
		case isBaseline(p):
			of = 1
		case p.Name == backtest.Upstream:
			of = 2
		case len(p.Params) > 0:
			of = 3
		case p.Name == backtest.Shipped:
			of = 4
		}
		if of > rank {
			best, rank = p, of
		}
	}
	return best
}

// named is the policy of a name, or nil.
func named(r *backtest.Report, name string) *backtest.Policy {
	for i := range r.Policies {
		if r.Policies[i].Name == name {
			return &r.Policies[i]
		}
	}
	return nil
}

// headline says in a few sentences what came out.
func headline(w *writer) {
	r := w.r
	w.Put("<h1><small>celvpa backtest</small> What would this policy have done?</h1>\n")
	if w.main != nil {
		w.Put("<div class=\"verdict info\" role=\"region\" aria-label=\"Summary\">\n<p class=\"text\">")
		summary(w, named(r, backtest.Manifest))
		w.Put("</p>\n</div>\n")
	}
	w.Put("<dl class=\"about\">\n<div><dt>History</dt><dd>{}<small> {}</small></dd></div>\n", markup.Period(r.Window.From, r.Window.To), long(float64(r.Window.Seconds)))
	if w.main != nil {
		w.Put("<div><dt>Workloads</dt><dd>{} <small>with {}</small></dd></div>\n", count(w.main.Fleet.Workloads), plural(len(w.main.Containers), "container"))
		w.Put("<div><dt>Looked at closely</dt><dd>policy <strong>{}</strong></dd></div>\n", w.main.Name)
	}
	if p := r.Prices; p != nil {
		w.Put("<div><dt>Prices</dt><dd>{} a core-hour, {} a GiB-hour</dd></div>\n", number(p.CoreHour), number(p.GiBHour))
	}
	w.Put("</dl>\n")
}

// summary compares the policy with the requests as they are.
func summary(w *writer, before *backtest.Policy) {
	f := &w.main.Fleet
	w.Put("Policy <strong>{}</strong> would have requested ", w.main.Name)
	if before == nil || before == w.main {
		w.Put("{} core-hours of CPU and {} GiB-hours of memory", count64(f.CPU.RequestedCoreHours), count64(f.Memory.RequestedGiBHours))
	} else {
		b := &before.Fleet
		w.Put("{} core-hours of CPU <strong>({})</strong> and {} GiB-hours of memory <strong>({})</strong>",
			count64(f.CPU.RequestedCoreHours), against(f.CPU.RequestedCoreHours, b.CPU.RequestedCoreHours),
			count64(f.Memory.RequestedGiBHours), against(f.Memory.RequestedGiBHours, b.Memory.RequestedGiBHours))
		if f.Cost != nil && b.Cost != nil {
			w.Put(", at a cost of {} <strong>({})</strong>", count64(*f.Cost), against(*f.Cost, *b.Cost))
		}
		w.Put(", compared with the requests in the manifests")
	}
	if f.Evictions+f.Resizes == 0 {
		w.Put(". It would have changed no running pod.")
	} else {
		w.Put(". It would have evicted {} and resized {} in place.", plural(f.Evictions, "pod"), count(f.Resizes))
	}
	never := 0
	for i := range w.main.Workloads {
		if w.main.Workloads[i].NeverUpdated != nil {
			never++
		}
	}
	if never > 0 {
		w.Put(" Of {} it would <a href=\"#worst\">never have updated a pod</a>.", plural(never, "workload"))
	}
	w.Put(" Containers would have been OOM-killed {}", times(f.OOMs))
	if before != nil && before != w.main {
		w.Put(", with the manifests {}", times(before.Fleet.OOMs))
	}
	w.Put("; CPU use would have been above the request for {} of the time", share(f.CPU.OverRequestShare))
	if before != nil && before != w.main {
		w.Put(", with the manifests for {}", share(before.Fleet.CPU.OverRequestShare))
	}
	w.Put(".")
}

// modelled says what is a model, and how the measures are defined.
func modelled(w *writer) {
	if len(w.r.Modelled) > 0 {
		w.Put("<ul>\n")
		for _, text := range w.r.Modelled {
			w.Put("<li>{}</li>\n", text)
		}
		w.Put("</ul>\n")
	}
	w.Put("<h3>Words</h3>\n<dl class=\"words\">\n")
	for _, one := range words {
		w.Put("<div><dt>{}</dt><dd>{}</dd></div>\n", one[0], one[1])
	}
	w.Put("</dl>\n")
}

// words explain the measures. docs/backtest.md defines them.
var words = [][2]string{
	{"Requested", "What containers request, times the hours in which their usage is known."},
	{"Slack", "Request minus usage while usage is below the request: what is reserved and not used, as a share of what is requested."},
	{"Over request", "The share of time in which usage is above the request. A node that is full gives no more than the request."},
	{"Throttled", "CPU-seconds wanted above the limit. A container without a limit is not throttled."},
	{"OOM kills", "How often memory usage met the limit in force. The history is what containers used under their old limits, so growth beyond those is not in it."},
	{"Time to adapt", "How long usage stayed above a request until the request was raised to it."},
	{"Flaps", "Changes of a request that undo the direction of the one before within a day."},
	{"manifest", "The requests as they are in the manifests: nothing is changed."},
	{"hindsight", "The least constant request that usage never exceeds. It knows the future, so no policy can be as good; it shows how much there is to win."},
	{"upstream", "The shipped rules with the defaults of upstream's Vertical Pod Autoscaler."},
	{"shipped", "The rules that celvpa ships, with the flags and the RuleOverlays of this run."},
	{"Unbeaten", "On the Pareto front: no other policy is at least as good in footprint, OOM kills and time over request, and better in one of them."},
}
