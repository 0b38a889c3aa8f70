package model

import "math"

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
