package model

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"time"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// weightSize is how many bytes the exact weight of a bucket takes: its index, and the weight.
const weightSize = 1 + 8

// exact is the weights of the buckets that are not empty, to the bit (crds/v1 CheckpointResume).
func (h *Histogram) exact() []byte {
	var out []byte
	for n := h.minBucket; h.weights != nil && n <= h.maxBucket; n++ {
		if h.weight(n) > 0 {
			out = binary.BigEndian.AppendUint64(append(out, byte(n)), math.Float64bits(h.weight(n)))
		}
	}
	return out
}

// withExact is a histogram that was restored from a checkpoint, with the weights that were rounded
// for it. Weights that do not match those of the checkpoint are an error.
func (h *Histogram) withExact(packed []byte, from *vpav1.HistogramCheckpoint) (*Histogram, error) {
	if len(packed)%weightSize != 0 || len(packed) > weightSize*h.buckets.count {
		return nil, fmt.Errorf("%d bytes are not 9 for each of at most %d buckets", len(packed), h.buckets.count)
	}
	out := newHistogram(h.buckets, h.halfLife)
	out.reference, out.total = h.reference, h.total
	if len(packed) > 0 {
		if first, last := int(packed[0]), int(packed[len(packed)-weightSize]); first <= last && last < h.buckets.count {
			out.cover(first, last)
		}
		out.minBucket, out.maxBucket = 0, h.buckets.count-1
	}
	last := -1
	for ; len(packed) > 0; packed = packed[weightSize:] {
		n, weight := int(packed[0]), math.Float64frombits(binary.BigEndian.Uint64(packed[1:]))
		if n <= last || n >= h.buckets.count {
			return nil, fmt.Errorf("bucket %d after bucket %d; there are 0 to %d, in order", n, last, h.buckets.count-1)
		}
		if !(weight > 0 && weight <= maxTotalWeight) {
			return nil, fmt.Errorf("bucket %d weighs %v", n, weight)
		}
		last, *out.bucket(n) = n, weight
	}
	if out.weights != nil {
		out.trim()
	}
	if !maps.Equal(out.checkpoint().BucketWeights, from.BucketWeights) {
		return nil, fmt.Errorf("they do not match bucketWeights")
	}
	return out, nil
}

// bringForward moves a reference that is later than latest to the last multiple of the half-life
// before that, and reports whether it did: new samples weigh next to nothing beside those of the
// far future.
func (h *Histogram) bringForward(latest time.Time) bool {
	if !h.reference.After(latest) {
		return false
	}
	h.reference = latest.Truncate(h.halfLife)
	return true
}

// epsilon is the least weight of a bucket that is not empty (UPSTREAM.md §2.12).
const epsilon = 0.0001

// buckets is an exponential bucket scheme: bucket n starts at first × (ratioⁿ − 1) / (ratio − 1).
type buckets struct {
	first float64 // size of bucket 0
	ratio float64
	count int

	starts []float64 // lower edges, computed once
}

var (
	cpuBuckets    = newBuckets(1000, 0.01, 1.05) // cores
	memoryBuckets = newBuckets(1e12, 1e7, 1.05)  // bytes
)

func newBuckets(maxValue, first, ratio float64) *buckets {
	b := &buckets{first: first, ratio: ratio}
	b.count = int(math.Ceil(b.log(maxValue*(ratio-1)/first+1))) + 1
	b.starts = make([]float64, b.count)
	for n := 1; n < b.count; n++ {
		b.starts[n] = first * (math.Pow(ratio, float64(n)) - 1) / (ratio - 1)
	}
	return b
}

func (b *buckets) log(x float64) float64 { return math.Log(x) / math.Log(b.ratio) }

// find is the bucket of a value. Near bucket edges it may differ from start by one: it is
// upstream's expression, so that checkpoints agree.
func (b *buckets) find(value float64) int {
	if value < b.first {
		return 0
	}
	n := int(b.log(value*(b.ratio-1)/b.first + 1))
	return min(n, b.count-1)
}

// start is the lower edge of a bucket.
func (b *buckets) start(n int) float64 { return b.starts[n] }
