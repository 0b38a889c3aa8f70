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
			for ; time.Since(begin) < time.Minute; time.Sleep(100 * time.Microsecond) {
			}
		}()
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.Unix(), now.Sub(begin).Milliseconds())
	}
}

func TestTheWallClockOfAProcessIsSteppedAndItsMonotonicClockIsNot(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "TELL_THE_TIME=1")
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, child.Wait())
	})
	lines := bufio.NewScanner(out)
	readClock := func() (ahead time.Duration, passed int64) {
		_, err := fmt.Fprintln(in)
		require.NoError(t, err)
		require.True(t, lines.Scan())
		var seconds int64
		_, err = fmt.Sscan(lines.Text(), &seconds, &passed)
		require.NoError(t, err)
		return time.Until(time.Unix(seconds, 0)).Round(10 * time.Second), passed
	}
	ahead, _ := readClock()
	require.Zero(t, ahead)
	clock, err := Of(child.Process.Pid)
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	for _, want := range []time.Duration{0, time.Hour, -24 * time.Hour, 365 * 24 * time.Hour} {
		require.NoError(t, clock.Set(want))
		ahead, passed := readClock()
		require.Equal(t, want, ahead)
		require.Less(t, passed, time.Minute.Milliseconds())
	}
}
