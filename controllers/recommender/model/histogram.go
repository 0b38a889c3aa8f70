package model

import (
	"math"
	"time"
)

// maxExponent bounds how far weights may grow before the reference time moves: 2^100.
const maxExponent = 100

// Histogram is a distribution in which a sample loses half its weight every half-life. Instead of
// shrinking old weights it grows new ones, relative to a reference time (UPSTREAM.md §2.12).
type Histogram struct {
	buckets   *buckets
	halfLife  time.Duration
	reference time.Time
	weights   []float64 // from bucket base on; nil until something is added
	base      int
	total     float64
	minBucket int
	maxBucket int
}

func newHistogram(b *buckets, halfLife time.Duration) *Histogram {
	return &Histogram{buckets: b, halfLife: halfLife, minBucket: b.count - 1}
}

// NewCPUHistogram is an empty distribution of CPU usage in cores.
func NewCPUHistogram(halfLife time.Duration) *Histogram { return newHistogram(cpuBuckets, halfLife) }

// NewMemoryHistogram is an empty distribution of memory peaks in bytes.
func NewMemoryHistogram(halfLife time.Duration) *Histogram {
	return newHistogram(memoryBuckets, halfLife)
}

// Add records a value with a weight at a time.
func (h *Histogram) Add(value, weight float64, at time.Time) {
	w := weight * h.decay(at)
	n := h.buckets.find(value)
	of := h.bucket(n)
	*of += w
	h.total += w
	if *of >= epsilon {
		h.minBucket = min(h.minBucket, n)
		h.maxBucket = max(h.maxBucket, n)
	}
}

// addRepeated records a value n times with a weight, at a time and then at every interval.
func (h *Histogram) addRepeated(value, weight float64, first time.Time, every time.Duration, n int) {
	// The sum of the weights is a geometric series, which ends with the heaviest.
	heaviest := h.decay(first.Add(time.Duration(n-1) * every))
	exponent := -math.Ln2 * float64(every) / float64(h.halfLife)
	series := math.Expm1(float64(n)*exponent) / math.Expm1(exponent)
	b := h.buckets.find(value)
	of := h.bucket(b)
	*of += weight * heaviest * series
	h.total += weight * heaviest * series
	if *of >= epsilon {
		h.minBucket, h.maxBucket = min(h.minBucket, b), max(h.maxBucket, b)
	}
}

// Subtract takes back a value that was added with the same weight and time.
func (h *Histogram) Subtract(value, weight float64, at time.Time) {
	w := weight * h.decay(at)
	of := h.bucket(h.buckets.find(value))
	*of = snap(*of - w)
	h.total = snap(h.total - w)
	h.trim()
}

// chunk is what the range of stored buckets is rounded to. Usage of one container is within a few of
// the 176 buckets of all that is possible.
const chunk = 8

// cover stores the weights of these buckets, from the first to the last.
func (h *Histogram) cover(first, last int) {
	if h.weights != nil {
		if first >= h.base && last < h.base+len(h.weights) {
			return
		}
		first, last = min(first, h.base), max(last, h.base+len(h.weights)-1)
	}
	first, last = first/chunk*chunk, min(last/chunk*chunk+chunk, h.buckets.count)
	weights := make([]float64, last-first)
	if h.weights != nil {
		copy(weights[h.base-first:], h.weights)
	}
	h.weights, h.base = weights, first
}

// bucket is the weight of a bucket, which may be changed.
func (h *Histogram) bucket(n int) *float64 {
	h.cover(n, n)
	return &h.weights[n-h.base]
}

// weight is the weight of a bucket.
func (h *Histogram) weight(n int) float64 {
	if i := n - h.base; i >= 0 && i < len(h.weights) {
		return h.weights[i]
	}
	return 0
}

func snap(w float64) float64 {
	if w < epsilon {
		return 0
	}
	return w
}

// trim moves the first and last bucket inwards over empty ones.
func (h *Histogram) trim() {
	last := h.buckets.count - 1
	for h.minBucket < last && h.weight(h.minBucket) < epsilon {
		h.minBucket++
	}
	for h.maxBucket > 0 && h.weight(h.maxBucket) < epsilon {
		h.maxBucket--
	}
}

// Merge adds another histogram of the same scheme and half-life, which stays unchanged.
func (h *Histogram) Merge(other *Histogram) {
	factor := 1.0
	if h.reference.Before(other.reference) {
		h.shift(other.reference)
	} else if other.reference.Before(h.reference) {
		factor = other.factorTo(h.reference.Round(h.halfLife))
	}
	if other.weights == nil {
		return
	}
	// The edges are those that the other would have at the common reference.
	low, high := other.minBucket, other.maxBucket
	if factor != 1 {
		for low < h.buckets.count-1 && other.weight(low)*factor < epsilon {
			low++
		}
		for high > 0 && other.weight(high)*factor < epsilon {
			high--
		}
	}
	if low <= high {
		h.cover(low, high)
	}
	for n := low; n <= high; n++ {
		h.weights[n-h.base] += other.weight(n) * factor
	}
	h.total += other.total * factor
	h.minBucket, h.maxBucket = min(h.minBucket, low), max(h.maxBucket, high)
}

// clone is a copy that may be changed.
func (h *Histogram) clone() *Histogram {
	c := *h
	if h.weights != nil {
		c.weights = append([]float64(nil), h.weights...)
	}
	return &c
}

// IsEmpty reports whether no sample has any weight left.
func (h *Histogram) IsEmpty() bool { return h.weight(h.minBucket) < epsilon }

// Percentile is the upper edge of the bucket in which the fraction (0 to 1) of all weight is
// reached; 0 when empty.
func (h *Histogram) Percentile(fraction float64) float64 {
	if h.IsEmpty() {
		return 0
	}
	threshold := fraction * h.total
	var sum float64
	n := h.minBucket
	for ; n < h.maxBucket; n++ {
		sum += h.weight(n)
		if sum >= threshold {
			break
		}
	}
	if n < h.buckets.count-1 {
		return h.buckets.start(n + 1)
	}
	return h.buckets.start(n)
}

// decay is the factor of a sample's weight: 2^(time since the reference / half-life).
func (h *Histogram) decay(at time.Time) float64 {
	if at.After(h.reference.Add(maxExponent * h.halfLife)) {
		h.shift(at)
	}
	return math.Exp2(float64(at.Sub(h.reference)) / float64(h.halfLife))
}

// factorTo is what weights must be multiplied with to be relative to another reference time: a
// power of two, so that nothing is lost by rounding.
func (h *Histogram) factorTo(reference time.Time) float64 {
	exponent := math.Floor(float64(h.reference.Sub(reference))/float64(h.halfLife) + 0.5)
	return math.Ldexp(1, int(exponent))
}

// setHalfLife lets weights shrink at another rate from a time on. What they are at that time stays.
func (h *Histogram) setHalfLife(halfLife time.Duration, at time.Time) {
	if h.halfLife == halfLife {
		return
	}
	grown := float64(at.Sub(h.reference)) / float64(h.halfLife)
	h.halfLife = halfLife
	if h.weights == nil {
		return
	}
	h.reference = at.Round(halfLife)
	h.multiply(math.Exp2(float64(at.Sub(h.reference))/float64(halfLife) - grown))
}

// withHalfLife is the histogram with another half-life from a time on; itself if it has that.
func (h *Histogram) withHalfLife(halfLife time.Duration, at time.Time) *Histogram {
	if h.halfLife == halfLife {
		return h
	}
	out := h.clone()
	out.setHalfLife(halfLife, at)
	return out
}

// shift moves the reference to the multiple of the half-life that is nearest to a time.
func (h *Histogram) shift(to time.Time) {
	to = to.Round(h.halfLife)
	factor := h.factorTo(to)
	h.reference = to
	h.multiply(factor)
}

// multiply changes all weights by a factor.
func (h *Histogram) multiply(factor float64) {
	h.total *= factor
	if h.weights == nil {
		return
	}
	for n := max(h.minBucket, h.base); n <= min(h.maxBucket, h.base+len(h.weights)-1); n++ {
		h.weights[n-h.base] *= factor
	}
	h.trim()
}
