package wallclock

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain makes this program tell the time when it is its own child.
func TestMain(m *testing.M) {
	if os.Getenv("TELL_THE_TIME") == "" {
		os.Exit(m.Run())
	}
	begin := time.Now()
	for range 8 { // threads that read the clock often
		go func() {
			for time.Since(begin) >= 0 {
				time.Sleep(100 * time.Microsecond)
			}
		}()
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), now.Sub(begin).Nanoseconds())
	}
}

func TestTheWallClockOfAProcessIsSteppedAndItsMonotonicClockIsNot(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "TELL_THE_TIME=1")
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, child.Wait())
	})
	lines := bufio.NewScanner(out)
	requireAhead := func(want time.Duration) {
		t.Helper()
		before := time.Now()
		_, err := fmt.Fprintln(in)
		require.NoError(t, err)
		require.True(t, lines.Scan())
		after := time.Now()
		var wall int64
		var passed time.Duration
		_, err = fmt.Sscan(lines.Text(), &wall, &passed)
		require.NoError(t, err)
		require.GreaterOrEqual(t, wall, before.Add(want).UnixNano())
		require.LessOrEqual(t, wall, after.Add(want).UnixNano())
		require.Less(t, passed, after.Sub(began))
	}
	requireAhead(0)
	clock, err := Of(child.Process.Pid)
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	for _, want := range []time.Duration{0, time.Hour, -24 * time.Hour, 365 * 24 * time.Hour} {
		require.NoError(t, clock.Set(want))
		requireAhead(want)
	}
}
