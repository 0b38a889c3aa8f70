package pagetest

import (
	"fmt"
	"math"
	"time"

	"github.com/celvpa/celvpa/backtest"
)

// From is when the history of all backtests begins.
var From = time.Date(2026, 2, 2, 0, 0, 0, 0, time.UTC)

const (
	days  = 14
	steps = 336 // of an hour
)

func to(value float64) *float64 { return &value }

// Sweep is a backtest of a few workloads with a sweep of one parameter: each policy evicts, one
// container is killed, and one that is resized in place.
func Sweep() *backtest.Report { return report(6, "0.05", "0.15", "0.3", "0.5") }

// Large is a backtest of so many containers, without a sweep.
func Large(containers int) *backtest.Report { return report(containers, "0.15") }

// Dense is a report with the longest paths that a chart can have: each of its points differs from the one before.
func Dense() *backtest.Report {
	r := report(1, "0.15")
	for i := range r.Policies {
		s := r.Policies[i].Containers[0].Series
		s.Steps, s.CPU, s.Memory = 240, backtest.Lines{}, backtest.Lines{}
		for step := range s.Steps {
			used := 1 + 0.001*float64(step%7*(step%11))
			line(&s.CPU, used, 1.2*used, 1.3*used, math.NaN(), 1.4*used, 0.7*used, 1.9*used)
			line(&s.Memory, used*(1<<30), 1.2*used*(1<<30), 1.3*used*(1<<30), 1.5*used*(1<<30), 1.4*used*(1<<30), 0.7*used*(1<<30), 1.9*used*(1<<30))
		}
	}
	return r
}

// Empty is the report of a backtest that found nothing to replay.
func Empty() *backtest.Report { return &backtest.Report{Window: window()} }

func window() backtest.Window {
	return backtest.Window{From: From, To: From.Add(days * 24 * time.Hour), Seconds: days * 24 * 3600}
}

// report has the built-in policies, and those of a sweep if there are several margins.
func report(containers int, margins ...string) *backtest.Report {
	r := &backtest.Report{Window: window(), Prices: &backtest.Prices{CoreHour: 0.03, GiBHour: 0.004}, Modelled: []string{
		"Usage is what containers used under their old limits; what they would have used under others is not known.",
		"A container is OOM-killed when a sample of its memory exceeds the limit in force.",
	}}
	for _, name := range []string{backtest.Manifest, backtest.Hindsight, backtest.Upstream} {
		r.Policies = append(r.Policies, policy(name, containers, 0.15))
	}
	if len(margins) > 1 {
		r.Policies = append(r.Policies, policy(backtest.Shipped, containers, 0.15))
		r.Policies[3].SameAs = backtest.Upstream
	}
	for _, margin := range margins {
		var fraction float64
		_, _ = fmt.Sscan(margin, &fraction)
		p := policy(backtest.Shipped, containers, fraction)
		if len(margins) > 1 {
			p.Name, p.Params = "shipped[estimate.marginFraction="+margin+"]", map[string]string{"estimate.marginFraction": margin}
		}
		r.Policies = append(r.Policies, p)
	}
	r.Policies[0].Pareto, r.Policies[len(r.Policies)-1].Pareto = true, true
	return r
}

func policy(name string, containers int, margin float64) backtest.Policy {
	p := backtest.Policy{Name: name}
	for i := range containers {
		c := container(name, i, margin)
		p.Containers = append(p.Containers, c)
		p.Workloads = append(p.Workloads, backtest.Workload{Namespace: c.Namespace, Workload: c.Workload, Kind: c.Kind, VPA: c.Workload, Measures: c.Measures})
		add(&p.Fleet.Measures, &c.Measures, 1/float64(containers))
		p.Fleet.Workloads++
		if c.OOMs > 0 {
			p.Fleet.WorkloadsWithOOMs++
		}
	}
	f := &p.Fleet
	f.EvictionsPerWorkloadDay, f.ResizesPerWorkloadDay = float64(f.Evictions)/float64(containers*days), float64(f.Resizes)/float64(containers*days)
	f.Spread.CPUSlackShare = backtest.Quantiles{P50: f.CPU.SlackShare, P95: 0.7, Worst: 0.83}
	f.Spread.CPUOverRequestShare = backtest.Quantiles{P50: f.CPU.OverRequestShare, Worst: 0.21}
	f.Spread.MemorySlackShare = backtest.Quantiles{P50: f.Memory.SlackShare, Worst: 0.66}
	if f.Evictions > 0 {
		f.AdaptSeconds = backtest.Times{Count: 12, P50: 7200, P95: 90000, Worst: 180000}
	}
	return p
}

func add(to, of *backtest.Measures, part float64) {
	to.CPU.RequestedCoreHours += of.CPU.RequestedCoreHours
	to.CPU.ThrottledCoreSeconds += of.CPU.ThrottledCoreSeconds
	to.CPU.SlackShare += part * of.CPU.SlackShare
	to.CPU.OverRequestShare += part * of.CPU.OverRequestShare
	to.Memory.RequestedGiBHours += of.Memory.RequestedGiBHours
	to.Memory.SlackShare += part * of.Memory.SlackShare
	to.Memory.OverRequestShare += part * of.Memory.OverRequestShare
	to.OOMs += of.OOMs
	to.Evictions += of.Evictions
	to.Resizes += of.Resizes
	cost := 0.03*of.CPU.RequestedCoreHours + 0.004*of.Memory.RequestedGiBHours
	if to.Cost != nil {
		cost += *to.Cost
	}
	to.Cost = &cost
}

var workloads = []string{"shop", "checkout", "search", "mail-relay", "ledger", "video-transcoder"}

// container rises and falls each day; the third one leaks, and the policies follow.
func container(name string, i int, margin float64) backtest.Container {
	c := backtest.Container{Namespace: []string{"web", "batch"}[i%2], Workload: workloads[i%len(workloads)], Kind: "Deployment", Container: "app"}
	if i >= len(workloads) {
		c.Workload += fmt.Sprintf("-%d", i)
	}
	s := &backtest.Series{StepSeconds: 3600, Steps: steps}
	c.Series = s
	size := 0.2 + 0.3*float64(i%5)
	target, memory, request, held := math.NaN(), math.NaN(), 4*size, 3*size
	used, reserved, over, usedMemory, reservedMemory := 0.0, 0.0, 0.0, 0.0, 0.0
	limit := 2.4 * size
	for step := range steps {
		at := From.Add(time.Duration(step) * time.Hour)
		cpu := size * (1 + 0.6*math.Sin(2*math.Pi*float64(step)/24+float64(i)) + 0.15*math.Sin(float64(step*7+i)))
		gib := size * (1 + 0.25*math.Sin(2*math.Pi*float64(step)/168))
		if i%3 == 2 {
			gib *= 1 + float64(step%120)/90
		}
		if i%7 == 3 && step > 150 && step < 162 {
			cpu, gib = math.NaN(), math.NaN() // a gap
		}
		move(name, s, at, step, i, margin, size, &target, &memory, &request, &held)
		if name == backtest.Hindsight {
			request, held = 1.75*size, 1.27*size
			if i%3 == 2 {
				held = 2.9 * size
			}
			limit = held
		}
		if gib > limit && !math.IsNaN(gib) && name != backtest.Hindsight && step%9 == 0 {
			c.OOMs++
			s.Events = append(s.Events, backtest.Event{At: at, Type: backtest.OOMKill, Pod: c.Workload + "-7d9f8b6c5d-bbbbb", Memory: &backtest.Change{From: to(limit * (1 << 30)), To: to(gib * (1 << 30))}})
		}
		line(&s.CPU, cpu, 1.2*cpu, request, math.NaN(), target, 0.6*target, math.Max(1.6*target, 40*target/float64(step+1)))
		g := float64(1 << 30)
		line(&s.Memory, gib*g, 1.1*gib*g, held*g, limit*g, memory*g, 0.8*memory*g, math.Max(1.3*memory*g, 40*memory*g/float64(step+1)))
		s.Pods = append(s.Pods, 2)
		if !math.IsNaN(cpu) {
			used, reserved, usedMemory, reservedMemory = used+math.Min(cpu, request), reserved+request, usedMemory+math.Min(gib, held), reservedMemory+held
			if cpu > request {
				over++
			}
		}
	}
	for _, e := range s.Events {
		switch e.Type {
		case backtest.Evicted:
			c.Evictions++
		case backtest.Resized:
			c.Resizes++
		}
	}
	c.CPU = backtest.CPU{SlackShare: 1 - used/reserved, RequestedCoreHours: reserved, OverRequestShare: over / steps, ThrottledCoreSeconds: 10 * over}
	c.Memory = backtest.Memory{SlackShare: 1 - usedMemory/reservedMemory, RequestedGiBHours: reservedMemory, OverRequestShare: over / steps / 3}
	return c
}

// move lets a policy recommend each day, and bring the pod to it, most by eviction.
func move(name string, s *backtest.Series, at time.Time, step, i int, margin, size float64, target, memory, request, held *float64) {
	if name == backtest.Manifest || name == backtest.Hindsight || step%60 != 12 {
		return
	}
	wanted, room := size*(1.35+margin+0.02*float64(step/60)), size*(1.2+margin+0.1*float64(step/60))
	s.Causes = append(s.Causes, backtest.Cause{At: at, CPU: &backtest.Change{From: some(*target), To: to(wanted)}, Memory: &backtest.Change{From: some(*memory * (1 << 30)), To: to(room * (1 << 30))},
		Rules: []string{"estimate/bounds/target", "estimate/bounds/add-safety-margin"}})
	e := backtest.Event{At: at.Add(10 * time.Minute), Type: backtest.Evicted, Pod: "shop-7d9f8b6c5d-bbbbb", Rule: "update/outside-recommended-range",
		Reason: "Its requests are outside the recommended range", CPU: &backtest.Change{From: to(*request), To: to(wanted)}, Memory: &backtest.Change{From: to(*held * (1 << 30)), To: to(room * (1 << 30))}}
	if i%4 == 1 {
		e.Type, e.Rule = backtest.Resized, "update/resize"
	}
	s.Events = append(s.Events, e)
	*target, *memory, *request, *held = wanted, room, wanted, room
}

func some(value float64) *float64 {
	if math.IsNaN(value) {
		return nil
	}
	return &value
}

func line(to *backtest.Lines, usage, peak, request, limit, target, lower, upper float64) {
	to.Usage, to.UsageMax = append(to.Usage, usage), append(to.UsageMax, peak)
	to.Request, to.Limit = append(to.Request, request), append(to.Limit, limit)
	to.Target, to.Lower, to.Upper = append(to.Target, target), append(to.Lower, lower), append(to.Upper, upper)
}
