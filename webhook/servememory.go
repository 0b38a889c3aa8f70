package webhook

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// DefaultReviewMemory bounds the memory of all reviews in flight, in bytes. It suffices for some 300 typical reviews.
	DefaultReviewMemory = 64 << 20
	// MinReviewMemory leaves room for a review of maxBody bytes.
	MinReviewMemory = 32 << 20
	// smallReview is the part of each review, in bytes, that comes from the budget for small reviews.
	smallReview = 1 << 20

	// bodyWeight is the memory for each byte of a request's buffer: the buffer, and the smaller ones that it replaces as it grows.
	bodyWeight = 2
	// valueWeight is the memory that a decoded JSON value may take, in bytes. The most for two bytes of JSON, {}, is a container.
	valueWeight = 1 << 10
)

var (
	// errNoMemory means that other reviews hold the memory that this one needs.
	errNoMemory = errors.New("the reviews in flight take all of --max-review-memory")
	// errTooLarge means that a review does not fit the budget even alone.
	errTooLarge = errors.New("request payload too large")
)

// reviewMemory is a budget: each review reserves memory before using it, so that neither many requests nor false Content-Lengths
// make the process grow without bound. Half of it is reserved for the first smallReview bytes of each review, so typical pods
// find room beside any number of large requests.
type reviewMemory struct {
	half         int64
	small, large *semaphore.Weighted
	wait         time.Duration // for other reviews to release memory
}

func newReviewMemory(total int64) *reviewMemory {
	half := total / 2
	return &reviewMemory{half: half, small: semaphore.NewWeighted(half), large: semaphore.NewWeighted(half), wait: queueWait}
}

// firstBuffers are used again, because they would be a seventh of all garbage. Most requests need no larger one.
var firstBuffers = sync.Pool{New: func() any { return new([firstRead]byte) }}

// reservation is one review's share of the budget. It is not safe for concurrent use.
type reservation struct {
	of           *reviewMemory
	small, large int64
	first        *[firstRead]byte // of firstBuffers, to put back
}

func (m *reviewMemory) reserve() *reservation { return &reservation{of: m} }

// add reserves more bytes. It waits briefly for other reviews. The error is errNoMemory, or errTooLarge if waiting cannot help.
func (r *reservation) add(ctx context.Context, bytes int64) error {
	from, held := r.of.small, &r.small
	if r.small+r.large+bytes > smallReview {
		from, held = r.of.large, &r.large
	}
	if *held+bytes > r.of.half {
		return errTooLarge
	}
	if !from.TryAcquire(bytes) {
		ctx, cancel := context.WithTimeout(ctx, r.of.wait)
		defer cancel()
		if from.Acquire(ctx, bytes) != nil {
			return errNoMemory
		}
	}
	*held += bytes
	return nil
}

// release returns everything to the budget. Calling it again does nothing.
func (r *reservation) release() {
	if r.first != nil {
		firstBuffers.Put(r.first)
		r.first = nil
	}
	r.of.small.Release(r.small)
	r.of.large.Release(r.large)
	r.small, r.large = 0, 0
}

// decodedSize is an upper bound of the memory that a JSON text takes once decoded, in bytes. The text need not be valid.
func decodedSize(text []byte) int64 {
	values := 1
	for _, before := range []string{"{", "[", ","} {
		values += bytes.Count(text, []byte(before))
	}
	if size := int64(len(text) + values*valueWeight); size <= smallReview {
		return size
	}
	values = 1 // what strings hold does not count
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[', ',':
			values++
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return int64(len(text) + values*valueWeight)
}
