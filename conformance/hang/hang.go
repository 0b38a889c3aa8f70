// Package hang ends tests that make no progress. It is the only place where the wall clock decides
// a test, and it decides nothing but that: Limit is far beyond what any step takes on a slow and
// busy machine. What a test is about, such as a back-off or a limit of time, runs on a clock that
// the test moves, or counts steps and bytes.
//
// It imports nothing of celvpa, so that tests of every package can use it.
package hang

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// Limit is how long a test waits before it calls what it waits for a hang.
const Limit = 10 * time.Minute

// pause is the time between two looks.
const pause = time.Millisecond

// Until waits for a condition.
func Until(t testing.TB, condition func() bool, what ...any) {
	t.Helper()
	for deadline := time.Now().Add(Limit); !condition(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			fail(t, what)
		}
	}
}

// Within runs work, which must end. A failure in it ends the test, too.
func Within(t testing.TB, work func()) {
	t.Helper()
	done := make(chan bool, 1)
	go func() {
		finished := false
		defer func() { done <- finished }()
		work()
		finished = true
	}()
	if !Receive(t, done) {
		t.FailNow()
	}
}

// Bytes runs work, which must end, and returns how many bytes were allocated meanwhile: a measure
// of its steps that no other process disturbs.
func Bytes(t testing.TB, work func()) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Within(t, work)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Receive waits for a value of a channel, or for its end.
func Receive[T any](t testing.TB, from <-chan T, what ...any) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Limit):
		fail(t, what)
		panic("unreachable")
	}
}

// Context is the test's context, canceled at the Limit.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	t.Cleanup(cancel)
	return ctx
}

func fail(t testing.TB, what []any) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	t.Log(string(stacks[:runtime.Stack(stacks, true)]))
	t.Fatal(append([]any{"no progress for", Limit}, what...)...)
}

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
