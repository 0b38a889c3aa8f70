package webhook

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// DefaultReviewMemory is how much memory the reviews in flight may take together, in bytes: some 300 usual ones at a time.
	DefaultReviewMemory = 64 << 20
	// LeastReviewMemory leaves room for a review of maxBody bytes.
	LeastReviewMemory = 32 << 20
	// smallReview is how many bytes a review may take and still count as small.
	smallReview = 1 << 20

	// bodyWeight is how many bytes of memory a byte of a request's buffer stands for: the buffer, the smaller one that it
	// replaces as it grows, and the copy of the objects in it.
	bodyWeight = 3
	// valueWeight is how many bytes of memory a JSON value may become. The largest thing that two bytes, {}, can ask for is a
	// container of a pod.
	valueWeight = 1 << 10
)

var (
	// errNoMemory says that other reviews hold the memory that this one needs.
	errNoMemory = errors.New("the reviews in flight take all of --max-review-memory")
	// errTooLarge says that a review could not be read even if it were alone.
	errTooLarge = errors.New("request payload too large")
)

// reviewMemory is the budget from which memory is reserved before it is used, so that no number of requests, and nothing that
// their headers claim, makes the process grow without bound. Half of it is for the first smallReview bytes of each review: reviews
// of usual pods find room however many large ones wait.
type reviewMemory struct {
	half         int64
	small, large *semaphore.Weighted
	wait         time.Duration // how long a reservation waits for others to be released
}

func newReviewMemory(total int64) *reviewMemory {
	half := total / 2
	return &reviewMemory{half: half, small: semaphore.NewWeighted(half), large: semaphore.NewWeighted(half), wait: queueWait}
}

// reservation is what one review holds of the budget. It is not for concurrent use.
type reservation struct {
	of           *reviewMemory
	small, large int64
}

func (m *reviewMemory) reserve() *reservation { return &reservation{of: m} }

// add reserves more bytes. It waits for a moment; the error is errNoMemory then, or errTooLarge if waiting could not help.
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

// release gives everything back. Calling it again does nothing.
func (r *reservation) release() {
	r.of.small.Release(r.small)
	r.of.large.Release(r.large)
	r.small, r.large = 0, 0
}

// decodedSize is how many bytes of memory a JSON text may take once it is decoded, at most. The text need not be valid.
func decodedSize(text []byte) int64 {
	values := int64(1)
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
	return int64(len(text)) + values*valueWeight
}
