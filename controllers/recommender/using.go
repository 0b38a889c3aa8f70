package recommender

import (
	"context"
	"errors"
)

// The State belongs to whoever holds the one place in Recommender.busy: the cycle, step by step, or
// someone who asks for an explanation meanwhile. The cycle gives it back while it reads from or
// writes to the API, so that nobody waits for that. Without it the goroutine of the cycle may still
// read what only the cycle changes.

// using lets the cycle use the State.
func (r *Recommender) using(f func()) {
	r.busy <- struct{}{}
	defer func() { <-r.busy }()
	f()
}

// reading lets others read the State, which f must not change but for what it caches. It gives up
// when the context ends.
func (r *Recommender) reading(ctx context.Context, f func()) error {
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		return errors.New("the recommender is busy with a cycle; ask again in a few seconds")
	}
	defer func() { <-r.busy }()
	f()
	return nil
}
