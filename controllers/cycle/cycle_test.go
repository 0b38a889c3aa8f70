package cycle

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/conformance/hang"
)

func TestALoopRunsAtEveryIntervalAndReportsWhenItIsStuck(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ran := make(chan struct{})
	loop := New("baker", time.Minute, clk, func(context.Context) { ran <- struct{}{} })
	require.NoError(t, loop.Healthy(), "not started")
	require.Nil(t, loop.NextCycle())

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- loop.Start(ctx) }()
	hang.Until(t, clk.HasWaiters)
	select {
	case <-ran:
		t.Fatal("the first cycle ran before an interval had passed")
	default:
	}
	require.Nil(t, loop.LastCycle())
	require.Equal(t, time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC), *loop.NextCycle())
	for range 3 {
		clk.Step(time.Minute)
		<-ran
	}
	hang.Until(t, func() bool {
		last := loop.LastCycle()
		return last != nil && last.Equal(time.Date(2026, 1, 1, 0, 3, 0, 0, time.UTC))
	})
	require.Equal(t, time.Date(2026, 1, 1, 0, 4, 0, 0, time.UTC), *loop.NextCycle())
	hang.Until(t, func() bool { return loop.Healthy() == nil })

	clk.Step(time.Minute) // the tick whose cycle nobody lets finish
	clk.Step(5 * time.Minute)
	require.EqualError(t, loop.Healthy(), "the baker has not finished a cycle for 6m0s")
	<-ran
	cancel()
	for {
		select {
		case <-ran: // ticks that had piled up
			continue
		case err := <-done:
			require.NoError(t, err)
		}
		return
	}
}

// TestShortIntervalsMakeNoLoopStuck: a machine on which a cycle takes a minute is slow, whatever the interval.
func TestShortIntervalsMakeNoLoopStuck(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	loop := New("baker", time.Second, clk, func(context.Context) {})
	loop.Progress()
	clk.Step(5 * time.Minute)
	require.NoError(t, loop.Healthy())
	clk.Step(time.Second)
	require.EqualError(t, loop.Healthy(), "the baker has not finished a cycle for 5m1s")
}

func TestALoopMayRunAtOnce(t *testing.T) {
	clk := testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	ran := make(chan struct{})
	loop := New("baker", time.Minute, clk, func(context.Context) { ran <- struct{}{} })
	loop.AtOnce()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- loop.Start(ctx) }()
	hang.Until(t, clk.HasWaiters)
	clk.Step(time.Minute) // the first cycle takes that long
	<-ran
	<-ran // the second one is not late
	require.NotNil(t, loop.LastCycle())
	cancel()
	require.NoError(t, <-done)
}
