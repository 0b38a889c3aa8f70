package hang

import (
	"context"
	"testing"
	"time"
)

const (
	// between is the time between two looks at an API server.
	between = 200 * time.Millisecond
	// oneLook is how long a look may take: what it asks may have been lost.
	oneLook = time.Minute
)

// Eventually waits for a condition of what others do, such as programs or an API server; what
// describes it. An error is no end, because a busy API server may not answer each time.
func Eventually(t testing.TB, what string, condition func(ctx context.Context) (bool, error)) {
	t.Helper()
	for deadline := time.Now().Add(Limit); ; {
		ctx, cancel := context.WithTimeout(t.Context(), oneLook)
		done, err := condition(ctx)
		cancel()
		switch {
		case done && err == nil:
			return
		case t.Context().Err() != nil:
			t.Fatalf("the test was ended while it waited for %s: %v", what, err)
		case time.Now().After(deadline):
			t.Fatalf("%s did not happen within %s; the last look says: %v", what, Limit, err)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(between):
		}
	}
}
