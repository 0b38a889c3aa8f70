package model

import (
	"time"

	"github.com/celvpa/celvpa/controllers/facts"
)

// Live is the newest usage of a container of one pod.
type Live struct {
	Pod string
	// Active: the pod has neither succeeded nor failed, so more samples may come.
	Active bool
	CPU    int64     // the last sample, milli-cores
	CPUAt  time.Time // zero = there is none
	// Memory is the measured peak of the last window, without OOMs, in bytes.
	Memory   int64
	MemoryAt time.Time // of the last sample; zero = there is none
	// Peak is what the histogram holds of the last window, and Ends when that ends.
	Peak   int64
	Ends   time.Time
	Window facts.Window
}

// Open reports whether the last window has not ended: no checkpoint's histogram holds it.
func (l *Live) Open(now time.Time) bool { return l.Peak > 0 && now.Before(l.Ends) }

// Live is the newest usage of the workload's pods, by container and in no order.
func (w *Workload) Live() map[string][]Live {
	out := map[string][]Live{}
	for _, g := range w.groups {
		for _, p := range g.pods {
			for _, c := range p.containers {
				if c.aggregate == nil { // it has expired
					continue
				}
				live := Live{
					Pod: p.id.Name, Active: p.active,
					Memory: max(c.memoryPeak, c.lastMemory), MemoryAt: c.lastMemorySample,
					Peak: c.peak(), Ends: c.windowEnd, Window: c.aggregate.Window,
				}
				if c.lastCPU >= 0 {
					live.CPU, live.CPUAt = c.lastCPU, c.lastCPUSample
				}
				out[c.name] = append(out[c.name], live)
			}
		}
	}
	return out
}

// Clone is a copy of a view that later samples do not change.
func (v View) Clone() View {
	containers := make([]Usage, len(v.Containers))
	for i, u := range v.Containers {
		u.Aggregate = u.clone()
		containers[i] = u
	}
	v.Containers = containers
	return v
}

func (a *Aggregate) clone() *Aggregate {
	c := *a
	c.CPU, c.Memory = a.CPU.clone(), a.Memory.clone()
	if a.recent != nil {
		r := *a.recent
		c.recent = &r
	}
	return &c
}
