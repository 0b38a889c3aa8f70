package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// startGrace is how long /health-check fails at most while the process gets ready. Charts made for upstream's images use that
// path as readiness and as liveness probe: upstream's restarts a container that has failed for 25 s, Fairwinds' after 30 s.
const startGrace = 20 * time.Second

// health says whether a process lives and whether it is ready, each by a list of checks. The lists are complete before it is
// asked.
type health struct {
	healthy []func() error
	ready   []func() error

	clock    clock.Clock
	start    time.Time
	synced   atomic.Bool // all caches are filled
	stopping atomic.Bool // it was asked to stop
	wasReady atomic.Bool
}

// newHealth is the health of a process that starts now.
func newHealth(clk clock.Clock) *health {
	h := &health{clock: clk, start: clk.Now()}
	h.ready = append(h.ready, func() error {
		switch {
		case h.stopping.Load():
			return errors.New("shutting down")
		case !h.synced.Load():
			return errors.New("caches have not synced yet")
		}
		return nil
	})
	return h
}

// isReady is the answer of /readyz.
func (h *health) isReady() error {
	err := first(h.ready)
	if err == nil {
		h.wasReady.Store(true)
	}
	return err
}

// isHealthy is the answer of /healthz.
func (h *health) isHealthy() error { return first(h.healthy) }

// isStarted is the answer of /health-check: that of /readyz until the process has been ready once, but not for longer than
// startGrace, so that waiting for a slow API server is no reason for a restart; and then that of /healthz.
func (h *health) isStarted() error {
	if !h.wasReady.Load() && h.clock.Since(h.start) < startGrace {
		if err := h.isReady(); err != nil {
			return err
		}
	}
	return h.isHealthy()
}

// outlive returns a context for what the process runs: it ends a delay after ctx does. Meanwhile /readyz fails.
func (h *health) outlive(ctx context.Context, delay time.Duration) (context.Context, context.CancelFunc) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		defer stop()
		h.stopping.Store(true)
		if delay > 0 && h.synced.Load() {
			ctrl.Log.Info("asked to stop; /readyz fails, and everything else goes on for --shutdown-delay-duration", "delay", delay.String())
			<-h.clock.After(delay)
		}
	})
	return running, stop
}

func first(checks []func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// handlers serve the answers, by path.
func (h *health) handlers() map[string]http.Handler {
	answer := func(check func() error) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, "OK")
		})
	}
	return map[string]http.Handler{"/health-check": answer(h.isStarted), "/healthz": answer(h.isHealthy), "/readyz": answer(h.isReady)}
}

// profiles serve what --profiling asks for, by path.
func profiles() map[string]http.Handler {
	// A profile takes as long as the request says.
	at := func(serve http.HandlerFunc) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a test's writer may not have one
			serve(w, r)
		})
	}
	return map[string]http.Handler{
		"/debug/pprof/": at(pprof.Index), "/debug/pprof/profile": at(pprof.Profile), "/debug/pprof/symbol": at(pprof.Symbol),
		"/debug/pprof/trace": at(pprof.Trace), "/debug/pprof/cmdline": at(pprof.Cmdline),
	}
}

// afterSync records that caches have synced: the manager starts it only then.
type afterSync struct{ *health }

// NeedLeaderElection is false: replicas that wait for the lead are ready.
func (a afterSync) NeedLeaderElection() bool { return false }

// Start implements the manager's Runnable.
func (a afterSync) Start(ctx context.Context) error {
	a.synced.Store(true)
	<-ctx.Done()
	return nil
}
