package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

// answers are the status codes of a process by path.
func answers(h *health) map[string]int {
	out := map[string]int{}
	for path, handler := range h.handlers(false) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		out[path] = w.Code
	}
	return out
}

func TestHealthCheckIsReadinessUntilReadyAndThenLiveness(t *testing.T) {
	h := newHealth(testclock.NewFakePassiveClock(time.Now()))
	require.Equal(t, map[string]int{"/health-check": 500, "/healthz": 200, "/readyz": 500}, answers(h), "caches are empty")
	h.synced.Store(true)
	require.Equal(t, map[string]int{"/health-check": 200, "/healthz": 200, "/readyz": 200}, answers(h))
	h.ready = append(h.ready, func() error { return errors.New("an overlay compiles for too long") })
	require.Equal(t, map[string]int{"/health-check": 200, "/healthz": 200, "/readyz": 500}, answers(h), "no reason for a restart")
	h.healthy = append(h.healthy, func() error { return errors.New("stuck") })
	require.Equal(t, map[string]int{"/health-check": 500, "/healthz": 500, "/readyz": 500}, answers(h))
}

// A slow API server is no reason for a restart, which would begin the wait again. Upstream's chart restarts at 25 s.
func TestHealthCheckOutlivesTheLivenessProbesOfKnownCharts(t *testing.T) {
	begin := time.Now()
	clk := testclock.NewFakePassiveClock(begin)
	h := newHealth(clk)
	for at, want := range map[time.Duration]int{0: 500, 5 * time.Second: 500, 15 * time.Second: 500, 25 * time.Second: 200, time.Hour: 200} {
		clk.SetTime(begin.Add(at))
		got := answers(h)
		require.Equal(t, want, got["/health-check"], "after %s", at)
		require.Equal(t, 200, got["/healthz"], "after %s", at)
		require.Equal(t, 500, got["/readyz"], "after %s", at)
	}
}
