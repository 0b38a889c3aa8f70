package updater

import (
	"context"

	"golang.org/x/time/rate"
)

// Limits are the rates of evictions and resizes: two independent token buckets (UPSTREAM.md §5.5).
// The zero value sets no limit. It is safe for concurrent use.
type Limits struct {
	Evictions *rate.Limiter // nil = unlimited
	Resizes   *rate.Limiter // nil = unlimited; shared with the ends of startup boosts
}

// NewLimits allows this many evictions a second, and as many resizes, after a burst of each. A rate
// of 0 or less sets no limit; with any other the burst must be at least 1.
func NewLimits(perSecond float64, burst int) Limits {
	if perSecond <= 0 {
		return Limits{}
	}
	return Limits{Evictions: rate.NewLimiter(rate.Limit(perSecond), burst), Resizes: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// wait waits for a limiter. It returns an error at once if the wait would exceed the deadline of
// the context.
func wait(ctx context.Context, l *rate.Limiter) error {
	if l == nil {
		return ctx.Err()
	}
	return l.Wait(ctx)
}
