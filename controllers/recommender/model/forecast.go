package model

import (
	"maps"
	"slices"
	"time"
)

// Forecast predicts the usage of a container for the case that each of its pods goes on as it is: the
// last CPU sample comes again at every step, and the peak of the last memory window in each window.
type Forecast struct {
	from   *Aggregate
	now    time.Time
	step   time.Duration
	cpu    map[int64]int // pods, by milli-cores
	pods   int           // with CPU samples
	memory []Live
}

// NewForecast begins at a time with the usage that is known then, and stays unchanged.
func NewForecast(from *Aggregate, live []Live, now time.Time, step time.Duration) *Forecast {
	f := &Forecast{from: from, now: now, step: step, cpu: map[int64]int{}}
	for _, l := range live {
		if !l.Active {
			continue
		}
		if !l.CPUAt.IsZero() {
			f.cpu[l.CPU]++
			f.pods++
		}
		if !l.MemoryAt.IsZero() {
			f.memory = append(f.memory, l)
		}
	}
	return f
}

// HasCPU and HasMemory report whether there are samples that may come again.
func (f *Forecast) HasCPU() bool { return f.pods > 0 }

// HasMemory is HasCPU for memory.
func (f *Forecast) HasMemory() bool { return len(f.memory) > 0 }

// At is when a number of steps have passed.
func (f *Forecast) At(steps int) time.Time { return f.now.Add(time.Duration(steps) * f.step) }

// After is the usage after a number of steps.
func (f *Forecast) After(steps int) *Aggregate {
	a := f.from.clone()
	if steps <= 0 {
		return a
	}
	for _, milli := range slices.Sorted(maps.Keys(f.cpu)) {
		a.CPU.addRepeated(float64(milli)/1000, cpuSampleWeight*float64(f.cpu[milli]), f.At(1), f.step, steps)
	}
	if f.HasCPU() {
		a.LastSample = f.At(steps)
		a.Samples += steps * f.pods
	}
	for i := range f.memory {
		f.addWindows(a, &f.memory[i], steps)
	}
	if f.HasMemory() {
		a.LastMemory = f.At(steps)
		a.MemorySamples += steps * len(f.memory)
	}
	return a
}

// addWindows adds the peaks of the windows that begin within a number of steps. A window begins with
// its first sample, and its peak is stamped with its end.
func (f *Forecast) addWindows(a *Aggregate, l *Live, steps int) {
	length := max(l.Window.Interval, f.step)
	first := f.At(1)
	if first.Before(l.Ends) { // the first sample that is not within the last window
		wait := l.Ends.Sub(first)
		first = first.Add((wait + f.step - 1) / f.step * f.step)
	}
	last := f.At(steps)
	if last.Before(first) {
		return
	}
	end := func(at time.Time) time.Time { return l.Ends.Add(at.Sub(l.Ends).Truncate(length) + length) }
	n := int(end(last).Sub(end(first))/length) + 1
	a.Memory.addRepeated(float64(l.Memory), 1, end(first), length, n)
}
