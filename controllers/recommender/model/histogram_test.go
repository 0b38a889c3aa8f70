package model

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The numbers are those of UPSTREAM.md §2.12.
func TestBucketsAreUpstreams(t *testing.T) {
	require.Equal(t, 176, cpuBuckets.count)
	require.Equal(t, 176, memoryBuckets.count)
	require.Equal(t, 1021.1094089048601, cpuBuckets.start(175))
	require.InEpsilon(t, 1.02110940890486e12, memoryBuckets.start(175), 1e-14)
	for value, bucket := range map[float64]int{0: 0, 0.0099: 0, 0.0205: 1, 0.1: 8, 0.5: 25, 1: 36, 2: 49, 4: 62, 10: 80, 1e6: 175} {
		require.Equal(t, bucket, cpuBuckets.find(value), "%v cores", value)
	}
	for value, bucket := range map[float64]int{0: 0, 1e8: 8, 262144000: 17, 1e9: 36, 1 << 30: 37, 2e9: 49, 1e15: 175} {
		require.Equal(t, bucket, memoryBuckets.find(value), "%v bytes", value)
	}
	for n, start := range []float64{0, 0.01, 0.0205, 0.031525, 0.04310125} {
		require.InDelta(t, start, cpuBuckets.start(n), 1e-12)
	}
	require.Equal(t, 0.020499999999999987, cpuBuckets.start(2), "the edge at which find and start disagree")
}

func TestPercentilesOfAnEmptyAndOfOneBucket(t *testing.T) {
	h := NewCPUHistogram(24 * time.Hour)
	require.True(t, h.IsEmpty())
	require.Zero(t, h.Percentile(0.9))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h.Add(1, 0.1, at)
	require.False(t, h.IsEmpty())
	for _, p := range []float64{-1, 0, 0.5, 1, 2} {
		require.Equal(t, cpuBuckets.start(37), h.Percentile(p))
	}
	h.Add(5000, 10, at)
	require.Equal(t, cpuBuckets.start(175), h.Percentile(1), "the last bucket has no upper edge")
	h.Subtract(1, 0.1, at)
	h.Subtract(5000, 10, at)
	require.True(t, h.IsEmpty(), "what was added can be taken back")
}

func TestWeightsDecayByHalfLives(t *testing.T) {
	at := time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC)
	h := NewCPUHistogram(24 * time.Hour)
	h.Add(1, 1, at)
	require.Equal(t, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), h.reference, "the nearest midnight")
	elevenHoursEarly := math.Exp2(-11.0 / 24)
	require.InDelta(t, elevenHoursEarly, h.total, 1e-12)
	h.Add(2, 1, at.Add(24*time.Hour))
	require.InDelta(t, 3*elevenHoursEarly, h.total, 1e-12, "a day newer counts twice")
	h.Add(4, 1, at.Add(150*24*time.Hour))
	require.InDelta(t, elevenHoursEarly, h.total, 1e-12, "after 100 half-lives the reference moves and the old fades")
	require.Equal(t, cpuBuckets.start(63), h.Percentile(0.5))
}

func TestMergeAddsUpAndLeavesItsSourceAlone(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	young, old := NewMemoryHistogram(24*time.Hour), NewMemoryHistogram(24*time.Hour)
	old.Add(1e9, 1, at)
	young.Add(2e9, 1, at.Add(48*time.Hour))
	reference, total := old.reference, old.total
	into := NewMemoryHistogram(24 * time.Hour)
	into.Merge(young)
	into.Merge(old)
	require.InDelta(t, 1.25, into.total, 1e-9)
	require.Equal(t, reference, old.reference)
	require.Equal(t, total, old.total)
	other := NewMemoryHistogram(24 * time.Hour)
	other.Merge(old)
	other.Merge(young)
	require.InDelta(t, into.total, other.total, 1e-9, "the order does not matter")
	require.Equal(t, into.Percentile(0.9), other.Percentile(0.9))
}

// TestHistogramsStoreTheBucketsInUse: 176 buckets for each of 200,000 histograms take 280 MB.
func TestHistogramsStoreTheBucketsInUse(t *testing.T) {
	h := NewCPUHistogram(time.Hour)
	for _, cores := range []float64{0.1, 0.12, 0.15} {
		h.Add(cores, 1, day)
	}
	require.LessOrEqual(t, len(h.weights), 3*chunk)
	one := h.Percentile(0.5)
	h.Add(1000, 1, day)
	h.Add(0, 1, day)
	require.Len(t, h.weights, h.buckets.count, "what is used is stored, whatever it is")
	require.Equal(t, one, h.Percentile(0.5))
	other := NewCPUHistogram(time.Hour)
	other.Add(3, 1, day)
	other.Merge(h)
	require.InDelta(t, 6, other.total, 1e-9)
	require.Zero(t, NewCPUHistogram(time.Hour).Percentile(0.5))
}
