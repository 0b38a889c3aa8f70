package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celvpa/celvpa/controllers/facts"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// CheckpointVersion is the only version of checkpoints that is read and written (UPSTREAM.md
// §2.17).
const CheckpointVersion = "v3"

const (
	// maxCheckpointWeight is what the heaviest bucket of a checkpoint weighs.
	maxCheckpointWeight = 10000
	// maxTotalWeight is more than any history can weigh: 2^100 for a sample at the end of all
	// half-lives, times the samples of a thousand years.
	maxTotalWeight = 1e42
	// maxCPUAhead is how far in the future the last sample of a checkpoint may be: clocks differ.
	maxCPUAhead = 24 * time.Hour
	// maxHalfLife is more than any half-life: a reference is at most half of one later than a sample.
	maxHalfLife = 366 * 24 * time.Hour
	// maxMemoryAhead is how far the end of a memory window may be: more than the longest that a VPA can
	// ask for, 1,399,995 hours.
	maxMemoryAhead = 160 * 366 * 24 * time.Hour
	// maxSamples is more than a million containers give in a thousand years.
	maxSamples = 1e15
)

// ErrAhead is returned for a checkpoint from the future: it was damaged, or this machine's clock is behind.
var ErrAhead = errors.New("far in the future")

// checkpoint is the aggregate as it is stored; now becomes its time of writing.
func (a *Aggregate) checkpoint(now time.Time) vpav1.VerticalPodAutoscalerCheckpointStatus {
	return vpav1.VerticalPodAutoscalerCheckpointStatus{
		Version:           CheckpointVersion,
		LastUpdateTime:    metav1.NewTime(now),
		FirstSampleStart:  metav1.NewTime(a.FirstSample),
		LastSampleStart:   metav1.NewTime(a.LastSample),
		TotalSamplesCount: a.Samples,
		CPUHistogram:      a.CPU.checkpoint(),
		MemoryHistogram:   a.Memory.checkpoint(),
	}
}

// restore reads an aggregate back. A value that no valid checkpoint holds is an error that names
// the field.
func restore(window facts.Window, from *vpav1.VerticalPodAutoscalerCheckpointStatus, now time.Time) (*Aggregate, error) {
	if from.Version != CheckpointVersion {
		return nil, fmt.Errorf("status.version is %q; this celvpa reads %q", from.Version, CheckpointVersion)
	}
	a := newAggregate(window, now)
	if r := from.Resume; r != nil && r.WrittenAt.Equal(&from.LastUpdateTime) && r.CPUHalfLife.Duration > 0 && r.MemoryHalfLife.Duration > 0 {
		a.CPU.halfLife, a.Memory.halfLife = r.CPUHalfLife.Duration, r.MemoryHalfLife.Duration // until Govern
	}
	a.FirstSample, a.LastSample, a.Samples = from.FirstSampleStart.Time, from.LastSampleStart.Time, from.TotalSamplesCount
	switch {
	case a.Samples < 0 || a.Samples > maxSamples:
		return nil, fmt.Errorf("status.totalSamplesCount is %d", a.Samples)
	case a.LastSample.Before(a.FirstSample):
		return nil, fmt.Errorf("status.lastSampleStart %s is before status.firstSampleStart %s", stamp(a.LastSample), stamp(a.FirstSample))
	case a.LastSample.After(now.Add(maxCPUAhead)):
		return nil, fmt.Errorf("status.lastSampleStart %s is %w", stamp(a.LastSample), ErrAhead)
	}
	if err := a.CPU.restore(&from.CPUHistogram, now.Add(maxCPUAhead+max(a.CPU.halfLife, maxHalfLife/2))); err != nil {
		return nil, fmt.Errorf("status.cpuHistogram.%w", err)
	}
	a.CPU.bringForward(now.Add(maxCPUAhead + a.CPU.halfLife)) // its half-life was longer
	if err := a.Memory.restore(&from.MemoryHistogram, now.Add(maxMemoryAhead)); err != nil {
		return nil, fmt.Errorf("status.memoryHistogram.%w", err)
	}
	if !a.Memory.IsEmpty() {
		a.MemorySamples, a.LastMemory = max(a.Samples, 1), a.LastSample
		if a.Samples == 0 {
			a.LastMemory = now
		}
	}
	return a, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// checkpoint scales the weights to integers; those that come to 0 are left out.
func (h *Histogram) checkpoint() vpav1.HistogramCheckpoint {
	out := vpav1.HistogramCheckpoint{ReferenceTimestamp: metav1.NewTime(h.reference), TotalWeight: h.total}
	if h.weights == nil {
		return out
	}
	heaviest := 0.0
	for n := h.minBucket; n <= h.maxBucket; n++ {
		heaviest = max(heaviest, h.weight(n))
	}
	if heaviest == 0 {
		return out
	}
	ratio := maxCheckpointWeight / heaviest
	out.BucketWeights = map[string]uint32{}
	for n := h.minBucket; n <= h.maxBucket; n++ {
		if w := uint32(math.Floor(h.weight(n)*ratio + 0.5)); w > 0 {
			out.BucketWeights[strconv.Itoa(n)] = w
		}
	}
	return out
}

// restore fills an empty histogram. Its reference may be no later than latest: samples from before
// it would weigh nothing.
func (h *Histogram) restore(from *vpav1.HistogramCheckpoint, latest time.Time) error {
	if !(from.TotalWeight >= 0 && from.TotalWeight <= maxTotalWeight) {
		return fmt.Errorf("totalWeight is %v", from.TotalWeight)
	}
	if at := from.ReferenceTimestamp.Time; at.After(latest) {
		return fmt.Errorf("referenceTimestamp %s is %w", stamp(at), ErrAhead)
	}
	weights := make([]uint32, h.buckets.count)
	sum := int64(0)
	for key, w := range from.BucketWeights {
		n, err := strconv.Atoi(key)
		if err != nil || n < 0 || n >= h.buckets.count {
			return fmt.Errorf("bucketWeights has a bucket %q; there are 0 to %d", key, h.buckets.count-1)
		}
		weights[n] += w
		sum += int64(w)
	}
	h.reference = from.ReferenceTimestamp.Time
	if sum == 0 {
		return nil
	}
	ratio := from.TotalWeight / float64(sum)
	h.minBucket, h.maxBucket = 0, h.buckets.count-1
	some := func(w uint32) bool { return w > 0 }
	first := slices.IndexFunc(weights, some)
	last := first
	for n := first; n < len(weights); n++ {
		if some(weights[n]) {
			last = n
		}
	}
	h.cover(first, last)
	for n, w := range weights {
		if some(w) {
			h.weights[n-h.base] = float64(w) * ratio
		}
	}
	h.total = from.TotalWeight
	// Rounding may have left negative weights in the outermost buckets.
	h.trim()
	return nil
}
