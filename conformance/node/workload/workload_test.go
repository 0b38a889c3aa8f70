package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
)

func TestItServesOrders(t *testing.T) {
	var code []int
	w := &workload{exit: func(c int) { code = append(code, c) }}
	server := httptest.NewServer(w.handler())
	defer server.Close()
	order := func(path string, status int) (r report) {
		t.Helper()
		answer, err := http.Post(server.URL+path, "", nil)
		require.NoError(t, err)
		defer answer.Body.Close()
		require.Equal(t, status, answer.StatusCode, path)
		if status == http.StatusOK {
			require.NoError(t, json.NewDecoder(answer.Body).Decode(&r))
		}
		return r
	}
	before := resident(t)
	require.Equal(t, int64(64<<20), order("/hold?bytes=67108864", http.StatusOK).Bytes)
	require.Greater(t, resident(t), before+60<<20, "held memory is touched")
	require.Zero(t, order("/hold?bytes=0", http.StatusOK).Bytes)
	require.Less(t, resident(t), before+32<<20, "freed memory is gone")

	require.Equal(t, int64(200), order("/burn?milli=200", http.StatusOK).Milli)
	require.Zero(t, order("/burn?milli=0", http.StatusOK).Milli)
	order("/exit?code=3", http.StatusOK)
	require.Equal(t, []int{3}, code)
	for _, wrong := range []string{"/hold", "/hold?bytes=-1", "/burn?milli=much"} {
		order(wrong, http.StatusBadRequest)
	}
	order("/hold?bytes=4611686018427387904", http.StatusInsufficientStorage)
}

// TestItBurnsWhatIsOrdered, or less where the machine is busy: it waits until some CPU time was burnt, however long that takes.
func TestItBurnsWhatIsOrdered(t *testing.T) {
	w := &workload{}
	began, used := time.Now(), burnt(t)
	w.cpu.set(200)
	for time.Sleep(time.Second); burnt(t)-used < 0.05 && time.Since(began) < 5*time.Minute; time.Sleep(10 * time.Millisecond) { // what is measured is a rate
	}
	w.cpu.set(0)
	rate := (burnt(t) - used) / time.Since(began).Seconds()
	t.Logf("ordered to burn 0.2 cores, burnt %.3f", rate)
	require.GreaterOrEqual(t, burnt(t)-used, 0.05)
	require.Less(t, rate, 0.35)
	for begin := time.Now(); ; { // a burner that had no turn yet ends its period
		used = burnt(t)
		time.Sleep(300 * time.Millisecond)
		if burnt(t)-used < 0.05 {
			break // it rests again
		}
		require.Less(t, time.Since(begin), 5*time.Minute, "it rests again")
	}
}

func resident(t *testing.T) uint64 {
	t.Helper()
	proc, err := procfs.NewProc(os.Getpid())
	require.NoError(t, err)
	status, err := proc.NewStatus()
	require.NoError(t, err)
	return status.VmRSS
}

func burnt(t *testing.T) float64 {
	t.Helper()
	proc, err := procfs.NewProc(os.Getpid())
	require.NoError(t, err)
	stat, err := proc.Stat()
	require.NoError(t, err)
	return stat.CPUTime()
}
