package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/controllers/listener"
	"github.com/celvpa/celvpa/webhook"
	"github.com/celvpa/celvpa/webhook/certificates"
)

// answers are the status codes of a process by path.
func statuses(h *health) map[string]int {
	out := map[string]int{}
	for path, handler := range h.handlers() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		out[path] = w.Code
	}
	return out
}

func TestHealthCheckIsReadinessUntilReadyAndThenLiveness(t *testing.T) {
	h := newHealth(testclock.NewFakeClock(time.Now()))
	require.Equal(t, map[string]int{"/health-check": 500, "/healthz": 200, "/readyz": 500}, statuses(h), "caches are empty")
	h.synced.Store(true)
	require.Equal(t, map[string]int{"/health-check": 200, "/healthz": 200, "/readyz": 200}, statuses(h))
	h.ready = append(h.ready, func() error { return errors.New("an overlay compiles for too long") })
	require.Equal(t, map[string]int{"/health-check": 200, "/healthz": 200, "/readyz": 500}, statuses(h), "no reason for a restart")
	h.healthy = append(h.healthy, func() error { return errors.New("stuck") })
	require.Equal(t, map[string]int{"/health-check": 500, "/healthz": 500, "/readyz": 500}, statuses(h))
}

// A slow API server is no reason for a restart, which would begin the wait again. Upstream's chart restarts at 25 s.
func TestHealthCheckOutlivesTheLivenessProbesOfKnownCharts(t *testing.T) {
	begin := time.Now()
	clk := testclock.NewFakeClock(begin)
	h := newHealth(clk)
	for at, want := range map[time.Duration]int{0: 500, 5 * time.Second: 500, 15 * time.Second: 500, 25 * time.Second: 200, time.Hour: 200} {
		clk.SetTime(begin.Add(at))
		got := statuses(h)
		require.Equal(t, want, got["/health-check"], "after %s", at)
		require.Equal(t, 200, got["/healthz"], "after %s", at)
		require.Equal(t, 500, got["/readyz"], "after %s", at)
	}
}

// A rolling update with failurePolicy Fail refuses no pod if the webhook serves until API servers use another replica.
func TestTheWebhookServesUntilTheShutdownDelayIsOver(t *testing.T) {
	certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clock.RealClock{}, Log: logr.Discard()})
	require.NoError(t, err)
	clk := testclock.NewFakeClock(time.Now())
	h := newHealth(clk)
	h.synced.Store(true)
	asked, terminate := context.WithCancel(t.Context())
	running, stop := h.outlive(asked, 10*time.Second)
	defer stop()

	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, free.Close())
	listener := &listener.Server{Name: "webhook", Address: free.Addr().String(), MaxConnections: webhook.MaxConnections, Stopping: h.stopping.Load, TLS: &tls.Config{GetCertificate: certs.GetCertificate}, Log: logr.Discard(),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reviewed") })}
	ended := make(chan error, 1)
	go func() { ended <- listener.Start(running) }()
	hang.Until(t, func() bool { return listener.Started() == nil })

	ask := func(client *http.Client) error {
		answer, err := client.Post("https://"+listener.Address, "application/json", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && string(text) != "reviewed" {
			err = fmt.Errorf("it says %q", text)
		}
		return err
	}
	newClient := func() *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: hang.Limit}
	}
	closes := func() bool {
		answer, err := newClient().Post("https://"+listener.Address, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.Close
	}
	require.Equal(t, 200, statuses(h)["/readyz"])
	require.False(t, closes())
	var served atomic.Int64
	hammering, enough := context.WithCancel(t.Context())
	var load errgroup.Group
	for range 4 {
		load.Go(func() error {
			client := newClient()
			for hammering.Err() == nil {
				if err := ask(client); err != nil {
					return err
				}
				served.Add(1)
			}
			return nil
		})
	}
	terminate()
	hang.Until(t, func() bool { return statuses(h)["/readyz"] == 500 })
	require.Equal(t, 200, statuses(h)["/healthz"], "no reason for a restart")
	hang.Until(t, clk.HasWaiters)
	clk.Step(9 * time.Second)
	before := served.Load()
	hang.Until(t, func() bool { return served.Load() > before+100 })
	require.NoError(t, ask(newClient()), "new connections, too")
	require.True(t, closes(), "no connection that is in use is left for the end")
	enough()
	require.NoError(t, load.Wait())
	require.NoError(t, running.Err())
	clk.Step(time.Second)
	require.NoError(t, <-ended)
	require.ErrorContains(t, ask(newClient()), "connection refused")
}

func TestAProcessWithoutFilledCachesStopsAtOnce(t *testing.T) {
	h := newHealth(testclock.NewFakeClock(time.Now()))
	asked, terminate := context.WithCancel(t.Context())
	running, stop := h.outlive(asked, time.Hour)
	defer stop()
	terminate()
	<-running.Done()
}
