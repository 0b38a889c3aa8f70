package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAWorkerTakesReviewsUntilItIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := make(workers)
		idle := func() bool {
			synctest.Wait()
			select {
			case w <- func() {}:
				return true
			default:
				return false
			}
		}
		started, end := 0, make(chan struct{})
		for range 3 { // at once, so each gets a worker of its own
			w.run(func() { started++; <-end })
			synctest.Wait()
		}
		require.Equal(t, 3, started)
		require.False(t, idle(), "all are busy")
		close(end)
		time.Sleep(workerIdle - time.Second)
		require.True(t, idle())
		time.Sleep(2 * time.Second)
		require.True(t, idle(), "one has had a review since")
		time.Sleep(workerIdle + time.Second)
		require.False(t, idle(), "all have ended")
	})
}
