package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// maxResumedPods is of how many pods a checkpoint holds the state: about 15 KB. With more, the
// target of memory stays close, as it depends on the pods with the largest peaks.
const maxResumedPods = 100

// maxPodName is the longest name of a pod.
const maxPodName = 253

// resumed is what a checkpoint holds of a container in one pod.
type resumed struct {
	pod       string
	cpu       time.Time // newest sample
	memory    time.Time // newest sample, or OOM
	windowEnd time.Time
	stored    bool // the histogram of the checkpoint has the peak
	counted   bool // the window has a peak
	memoryPeak,
	oomPeak int64
	oom time.Time // the last that was judged
}

func (e *resumed) peak() int64 { return max(e.memoryPeak, e.oomPeak) }

// resumption is what a checkpoint holds of the pods of a container, until these are known.
type resumption struct {
	written time.Time
	pods    []resumed // by name
	others  time.Time // the newest CPU sample of the pods that are left out
}

// resume is the state of a container besides its histograms.
func (w *Workload) resume(container string, all *Aggregate, now time.Time) *vpav1.CheckpointResume {
	out := &vpav1.CheckpointResume{
		WrittenAt: metav1.NewTime(now), CPUWeights: all.CPU.exact(), MemoryWeights: all.Memory.exact(), MemorySamples: all.MemorySamples,
		CPUHalfLife: metav1.Duration{Duration: all.CPU.halfLife}, MemoryHalfLife: metav1.Duration{Duration: all.Memory.halfLife},
	}
	if all.LastMemory.After(all.LastSample) {
		out.LastMemorySample = vpav1.NewInstant(all.LastMemory)
	}
	var pods []vpav1.CheckpointPod
	for _, g := range w.groups {
		for _, p := range g.pods {
			if c := p.container(container); c != nil && c.aggregate != nil && !c.untouched() {
				pods = append(pods, c.stored(p.id.Name, now))
			}
		}
	}
	if len(pods) > maxResumedPods {
		slices.SortFunc(pods, mostImportant)
		for _, p := range pods[maxResumedPods:] {
			if p.CPUSample != nil && p.CPUSample.At().After(out.OmittedCPUSample.At()) {
				out.OmittedCPUSample = p.CPUSample
			}
		}
		pods = slices.Clone(pods[:maxResumedPods])
	}
	slices.SortFunc(pods, func(a, b vpav1.CheckpointPod) int { return strings.Compare(a.Name, b.Name) })
	out.Pods = pods
	return out
}

// mostImportant orders pods with OOM kills first, then those with the largest peaks.
func mostImportant(a, b vpav1.CheckpointPod) int {
	amount := func(n *int64) int64 {
		if n == nil {
			return -1
		}
		return *n
	}
	return cmp.Or(cmp.Compare(amount(b.OOMPeak), amount(a.OOMPeak)), cmp.Compare(amount(b.MemoryPeak), amount(a.MemoryPeak)), strings.Compare(a.Name, b.Name))
}

// untouched reports whether there was no sample and no OOM.
func (c *container) untouched() bool {
	return c.lastCPUSample.IsZero() && c.windowEnd.IsZero() && c.ooms == nil
}

// stored is the state of a container in a pod as it is stored.
func (c *container) stored(pod string, now time.Time) vpav1.CheckpointPod {
	lastOOM, _ := c.judged()
	out := vpav1.CheckpointPod{Name: pod, CPUSample: vpav1.NewInstant(c.lastCPUSample), WindowEnd: vpav1.NewInstant(c.windowEnd), LastOOM: vpav1.NewInstant(lastOOM)}
	if !c.lastMemorySample.Equal(c.lastCPUSample) {
		out.MemorySample = vpav1.NewInstant(c.lastMemorySample)
	}
	if !c.counted {
		return out
	}
	out.Closed = !now.Before(c.windowEnd)
	if out.MemoryPeak = new(c.memoryPeak); c.oomPeak > 0 {
		out.OOMPeak = new(c.oomPeak)
	}
	return out
}

// Resume adds to a container's restored history what the checkpoint holds besides the histograms.
// Windows of pods count from Cluster.Continue on; until is when the first of them closes, zero
// without one. window is that of the container. The error says why nothing was added.
func (w *Workload) Resume(container string, from *vpav1.VerticalPodAutoscalerCheckpointStatus, window facts.Window, now time.Time) (until time.Time, err error) {
	a, r := w.restored[container], from.Resume
	if a == nil || r == nil {
		return until, nil
	}
	p, until, err := readResume(from, window, now)
	if err != nil {
		return time.Time{}, fmt.Errorf("status.resume.%w", err)
	}
	cpu, err := a.CPU.withExact(r.CPUWeights, &from.CPUHistogram)
	if err != nil {
		return time.Time{}, fmt.Errorf("status.resume.cpuWeights: %w", err)
	}
	memory, err := a.Memory.withExact(r.MemoryWeights, &from.MemoryHistogram)
	if err != nil {
		return time.Time{}, fmt.Errorf("status.resume.memoryWeights: %w", err)
	}
	a.CPU, a.Memory, a.MemorySamples = cpu, memory, r.MemorySamples
	if last := r.LastMemorySample.At(); !last.IsZero() {
		a.LastMemory = last
	}
	if w.resuming == nil {
		w.resuming = map[string]*resumption{}
	}
	w.resuming[container] = p
	return until, nil
}

// readResume reads the state of pods. A value that no valid checkpoint holds is an error that begins
// with the field.
func readResume(from *vpav1.VerticalPodAutoscalerCheckpointStatus, window facts.Window, now time.Time) (*resumption, time.Time, error) {
	r, until := from.Resume, time.Time{}
	out := &resumption{written: r.WrittenAt.Time, others: r.OmittedCPUSample.At()}
	lastCPU := from.LastSampleStart.Add(time.Second)
	switch {
	case !r.WrittenAt.Equal(&from.LastUpdateTime):
		return nil, until, fmt.Errorf("writtenAt %s is not status.lastUpdateTime %s: another program has written the checkpoint since", stamp(out.written), stamp(from.LastUpdateTime.Time))
	case out.written.After(now.Add(window.ClockSkew)):
		return nil, until, fmt.Errorf("writtenAt %s is in the future", stamp(out.written))
	case r.MemorySamples < 0 || r.MemorySamples > maxSamples:
		return nil, until, fmt.Errorf("memorySamples is %d", r.MemorySamples)
	case len(r.Pods) > maxResumedPods:
		return nil, until, fmt.Errorf("pods are %d; there are at most %d", len(r.Pods), maxResumedPods)
	case r.LastMemorySample.At().After(now.Add(window.ClockSkew)):
		return nil, until, fmt.Errorf("lastMemorySample %s is in the future", stamp(r.LastMemorySample.At()))
	case out.others.After(lastCPU):
		return nil, until, fmt.Errorf("omittedCPUSample %s is later than status.lastSampleStart", stamp(out.others))
	}
	for i := range r.Pods {
		e, err := readPod(&r.Pods[i], lastCPU, window, now)
		if err == nil && i > 0 && e.pod <= out.pods[i-1].pod {
			err = errors.New("name does not come after that of the pod before")
		}
		if err != nil {
			return nil, until, fmt.Errorf("pods[%d].%w", i, err)
		}
		out.pods = append(out.pods, e)
		if e.counted && !e.stored && (until.IsZero() || e.windowEnd.Before(until)) {
			until = e.windowEnd
		}
	}
	return out, until, nil
}

// readPod reads the state of one pod.
func readPod(p *vpav1.CheckpointPod, lastCPU time.Time, window facts.Window, now time.Time) (resumed, error) {
	e := resumed{pod: p.Name, cpu: p.CPUSample.At(), memory: p.MemorySample.At(), windowEnd: p.WindowEnd.At(), oom: p.LastOOM.At()}
	e.counted = p.MemoryPeak != nil || p.OOMPeak != nil
	e.stored = p.Closed
	if e.memory.IsZero() && !e.windowEnd.IsZero() {
		e.memory = e.cpu
	}
	if p.MemoryPeak != nil {
		e.memoryPeak = *p.MemoryPeak
	}
	if p.OOMPeak != nil {
		e.oomPeak = *p.OOMPeak
	}
	latest, since := now.Add(window.ClockSkew), time.Unix(0, 0)
	switch {
	case e.pod == "" || len(e.pod) > maxPodName:
		return e, errors.New("name is not a name of a pod")
	case e.cpu.After(lastCPU):
		return e, fmt.Errorf("cpuSample %s is later than status.lastSampleStart", stamp(e.cpu))
	case e.memory.After(latest):
		return e, fmt.Errorf("memorySample %s is in the future", stamp(e.memory))
	case e.oom.After(latest):
		return e, fmt.Errorf("lastOOM %s is in the future", stamp(e.oom))
	case e.memoryPeak < 0 || e.oomPeak < 0:
		return e, fmt.Errorf("memoryPeak and oomPeak are %d and %d", e.memoryPeak, e.oomPeak)
	case e.windowEnd.IsZero() && e.counted:
		return e, errors.New("windowEnd is missing, and there is a peak")
	case !e.windowEnd.IsZero() && (e.windowEnd.Before(since) || e.windowEnd.Before(e.memory)):
		return e, fmt.Errorf("windowEnd %s is before memorySample", stamp(e.windowEnd))
	case e.windowEnd.After(LatestWindow(window, now)):
		return e, fmt.Errorf("windowEnd %s is far in the future", stamp(e.windowEnd))
	}
	return e, nil
}

// LatestWindow is later than any memory window ends: all windows that count together. Windows may have
// been made shorter since one was opened, which ends when it would have, so they count as no shorter
// than by default.
func LatestWindow(window facts.Window, now time.Time) time.Time {
	return now.Add(window.ClockSkew).Add(max(window.Length(), facts.DefaultWindow().Length()))
}

// LimitReference keeps restored memory from weighing more than any new sample would: a reference
// time that no window explains is brought forward. It returns the time that was stored; zero if
// that stays.
func (w *Workload) LimitReference(container string, latest time.Time) (was time.Time) {
	a := w.restored[container]
	if a == nil {
		return was
	}
	latest = latest.Add(a.Memory.halfLife)
	if before := a.Memory.reference; a.Memory.bringForward(latest) {
		return before
	}
	return was
}
