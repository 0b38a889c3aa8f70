package main

import (
	"math/rand/v2"
	"slices"

	"github.com/celvpa/celvpa/backtest"
)

// result is the outcome of all policies.
type result struct {
	Half     string   `json:"half"`
	VMs      []string `json:"vms"`
	LeftOut  []string `json:"leftOut,omitempty"`
	Policies []row    `json:"policies"`
}

// row is the outcome of a policy. Shares are of 1.
type row struct {
	Name        string  `json:"name"`
	CoreHours   float64 `json:"coreHours"`
	CPUSlack    float64 `json:"cpuSlack"`
	CPUOver     float64 `json:"cpuOver"`
	GiBHours    float64 `json:"gibHours"`
	MemorySlack float64 `json:"memorySlack"`
	OOMs        int     `json:"ooms"`
	Changes     float64 `json:"changesPerContainerDay"` // evictions and resizes
	Ratios      ratios  `json:"ratiosToUpstream"`
}

// ratios are those of a policy to upstream; nil = upstream has none.
type ratios struct {
	Cores   *interval `json:"cores"`
	CPUOver *interval `json:"cpuOver"`
	GiB     *interval `json:"gib"`
	OOMs    *interval `json:"ooms"`
}

// interval is a ratio, and where 95 % of the draws lie.
type interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// judge turns a report into rows, baselines included.
func judge(report *backtest.Report) (out []row) {
	upstream := &report.Policies[slices.IndexFunc(report.Policies, func(p backtest.Policy) bool { return p.Name == backtest.Upstream })]
	draws := drawn(len(upstream.Workloads))
	for i := range report.Policies {
		p := &report.Policies[i]
		m := &p.Fleet.Measures
		one := row{Name: p.Name, CoreHours: m.CPU.RequestedCoreHours, CPUSlack: m.CPU.SlackShare, CPUOver: m.CPU.OverRequestShare,
			GiBHours: m.Memory.RequestedGiBHours, MemorySlack: m.Memory.SlackShare, OOMs: m.OOMs}
		if m.ObservedSeconds > 0 {
			one.Changes = float64(m.Evictions+m.Resizes) / (m.ObservedSeconds / day.Seconds())
		}
		against := func(of func(*backtest.Measures) float64) *interval {
			return compare(draws, amounts(p, of), amounts(upstream, of))
		}
		one.Ratios = ratios{
			Cores: against(func(m *backtest.Measures) float64 { return m.CPU.RequestedCoreHours }),
			// Each VM is observed for as long under any policy.
			CPUOver: against(func(m *backtest.Measures) float64 { return m.CPU.OverRequestShare * m.ObservedSeconds }),
			GiB:     against(func(m *backtest.Measures) float64 { return m.Memory.RequestedGiBHours }),
			OOMs:    against(func(m *backtest.Measures) float64 { return float64(m.OOMs) }),
		}
		out = append(out, one)
	}
	return out
}

// amounts has that of each VM, in an order that all policies share.
func amounts(p *backtest.Policy, of func(*backtest.Measures) float64) (out []float64) {
	for i := range p.Workloads {
		out = append(out, of(&p.Workloads[i].Measures))
	}
	return out
}

const draws = 1000

// drawn are so many draws of n out of n VMs, the same in each run.
func drawn(n int) [][]int {
	random := rand.New(rand.NewPCG(12, 2013))
	out := make([][]int, draws)
	for i := range out {
		out[i] = make([]int, n)
		for j := range out[i] {
			out[i][j] = random.IntN(n)
		}
	}
	return out
}

// compare is the ratio of two sums over VMs. Draws in which the second is 0 do not count.
func compare(draws [][]int, of, to []float64) *interval {
	sum := func(list []float64, draw []int) (out float64) {
		for _, i := range draw {
			out += list[i]
		}
		return out
	}
	all := make([]int, len(of))
	for i := range all {
		all[i] = i
	}
	base := sum(to, all)
	if base == 0 {
		return nil
	}
	var found []float64
	for _, draw := range draws {
		if below := sum(to, draw); below > 0 {
			found = append(found, sum(of, draw)/below)
		}
	}
	slices.Sort(found)
	at := func(q float64) float64 { return found[int(q*float64(len(found)-1)+0.5)] }
	return &interval{Value: sum(of, all) / base, Low: at(0.025), High: at(0.975)}
}
