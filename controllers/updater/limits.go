package updater

import (
	"context"

	"golang.org/x/time/rate"
)

// Limits are how fast pods are evicted and resized: two token buckets that know nothing of each other (UPSTREAM.md §5.5). The
// zero value sets no limit. It is safe for concurrent use.
type Limits struct {
	Evictions *rate.Limiter // nil = unlimited
	Resizes   *rate.Limiter // nil = unlimited; those that end startup boosts are among them
}

// NewLimits allows so many evictions a second, and as many resizes, after a burst of each. A rate of 0 or less sets no limit;
// with any other the burst must be at least 1.
func NewLimits(perSecond float64, burst int) Limits {
	if perSecond <= 0 {
		return Limits{}
	}
	return Limits{Evictions: rate.NewLimiter(rate.Limit(perSecond), burst), Resizes: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// wait waits until a limiter lets the next one pass. It returns an error, at once, where that would be after the end of the
// context.
func wait(ctx context.Context, l *rate.Limiter) error {
	if l == nil {
		return ctx.Err()
	}
	return l.Wait(ctx)
}
