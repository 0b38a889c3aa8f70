package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
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

// TestItBurnsWhatIsOrdered: how much of that it gets is up to the machine.
func TestItBurnsWhatIsOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var worked atomic.Int64
		b := &burner{work: func(d time.Duration, stop <-chan struct{}) {
			select {
			case <-stop:
			case <-time.After(d):
				worked.Add(int64(d))
			}
		}}
		for milli, want := range map[int64]time.Duration{200: 2 * time.Second, 1500: 15 * time.Second} {
			worked.Store(0)
			b.set(milli)
			time.Sleep(10 * time.Second)
			b.set(0)
			synctest.Wait()
			require.InDelta(t, want, worked.Load(), float64(4*period))
			time.Sleep(10 * time.Second)
			require.InDelta(t, want, worked.Load(), float64(4*period), "it rests again")
		}
	})
}

func TestWorkUsesCPU(t *testing.T) {
	b, used := &burner{}, burnt(t)
	b.set(200)
	defer b.set(0)
	hang.Until(t, func() bool { return burnt(t) > used+0.1 })
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
