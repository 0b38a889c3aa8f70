// Package page writes a backtest as one HTML page, with package markup. It shows a report and decides nothing: what
// a number means is said where it is measured, in package backtest.
package page

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/celvpa/celvpa/backtest"
	"github.com/celvpa/celvpa/markup"
)

//go:embed viewer.js
var viewer string

// Points is how many steps of a series a chart shows; longer ones are thinned.
const Points = 240

// What bounds a page.
const (
	closer  = 5       // containers of which there are charts of other policies, too
	mostOf  = 8 << 20 // bytes of charts
	rows    = 10_000  // containers of all policies together that are compared
	nothing = -1      // index of a policy that is not there
)

// charts are what the viewer draws beside a report.
type charts struct {
	Closely int               `json:"closely"` // index of the policy that is looked at closely; -1 without any
	Order   []int             `json:"order"`   // indexes of its containers, those that fare worst first
	Series  []json.RawMessage `json:"series"`  // of as many as fit, in that order
}

// chart is a series with as many points as are drawn.
type chart struct {
	Policy    int `json:"policy"`    // index in the report
	Container int `json:"container"` // index in the policy
	*backtest.Series
	CPU    map[string]backtest.Line `json:"cpu"` // as values and for how many steps each holds, in turn
	Memory map[string]backtest.Line `json:"memory"`
}

// Write writes r as a page: the report as -o json prints it without series, and series of containers as charts.
func Write(out io.Writer, r *backtest.Report) error {
	c, err := drawn(r)
	if err != nil {
		return err
	}
	period := markup.Period(r.Window.From, r.Window.To)
	return markup.Page{
		Title: "celvpa backtest, " + period, Summary: fmt.Sprintf("%d policies were tried on the history from %s.", len(r.Policies), period),
		Viewer: viewer, Report: bare(r, c.Closely), Charts: c,
	}.Write(out)
}

// bare is a report without series and, where there are too many containers to compare, without those of policies
// that are neither looked at closely nor the manifests.
func bare(r *backtest.Report, closely int) *backtest.Report {
	out := *r
	out.Policies = slices.Clone(r.Policies)
	for i := range out.Policies {
		p := &out.Policies[i]
		if len(r.Policies)*len(p.Containers) > rows && i != closely && p.Name != backtest.Manifest {
			p.Containers, p.Workloads = []backtest.Container{}, []backtest.Workload{}
		}
		p.Containers = slices.Clone(p.Containers)
		for j := range p.Containers {
			p.Containers[j].Series = nil
		}
	}
	return &out
}

// closely is the policy that is looked at closely: the first that somebody asked for and that is not a value of a
// sweep, else the shipped one.
func closely(r *backtest.Report) int {
	best, rank := nothing, 0
	for i := range r.Policies {
		p := &r.Policies[i]
		of := 5
		switch {
		case p.Name == backtest.Manifest, p.Name == backtest.Hindsight:
			of = 1
		case p.Name == backtest.Upstream:
			of = 2
		case len(p.Params) > 0, p.Implicit:
			of = 3
		case p.Name == backtest.Shipped:
			of = 4
		}
		if of > rank {
			best, rank = i, of
		}
	}
	return best
}

// drawn are the charts of the policy that is looked at closely and, of the containers that fare worst, those of
// others.
func drawn(r *backtest.Report) (*charts, error) {
	out := &charts{Closely: closely(r), Order: []int{}, Series: []json.RawMessage{}}
	if out.Closely == nothing {
		return out, nil
	}
	list := r.Policies[out.Closely].Containers
	for i := range list {
		out.Order = append(out.Order, i)
	}
	slices.SortStableFunc(out.Order, func(a, b int) int { return worse(&list[a], &list[b]) })
	size := 0
	for position, index := range out.Order {
		for i := range r.Policies {
			p := &r.Policies[i]
			if index >= len(p.Containers) || p.Containers[index].Series == nil || i != out.Closely && (position >= closer || p.SameAs != "") {
				continue
			}
			text, err := json.Marshal(thinned(i, index, p.Containers[index].Series))
			if err != nil {
				return nil, fmt.Errorf("writing series: %w", err)
			}
			if size += len(text); size > mostOf {
				return out, nil
			}
			out.Series = append(out.Series, text)
		}
	}
	return out, nil
}

// worse orders containers by how they fare.
func worse(a, b *backtest.Container) int {
	return cmp.Or(cmp.Compare(b.OOMs, a.OOMs), cmp.Compare(b.CPU.OverRequestShare+b.Memory.OverRequestShare, a.CPU.OverRequestShare+a.Memory.OverRequestShare),
		cmp.Compare(b.CPU.SlackShare*b.CPU.RequestedCoreHours, a.CPU.SlackShare*a.CPU.RequestedCoreHours))
}
