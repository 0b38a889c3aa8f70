package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/celvpa/celvpa/controllers/inspect"
	"github.com/celvpa/celvpa/controllers/listener"
	"github.com/celvpa/celvpa/webhook/certificates"
)

// secureMetrics are the flags of metrics over TLS.
type secureMetrics struct {
	address   string // empty = metrics are served on --address, to everybody
	cert, key string
}

func (s *secureMetrics) add(f *pflag.FlagSet) {
	f.StringVar(&s.address, "secure-metrics-address", "", "address that serves /metrics, and /debug/pprof with --profiling, over TLS and only to those whom the API server authorizes; --address then serves neither; empty = off (celvpa's own)")
	f.StringVar(&s.cert, "secure-metrics-cert-file", "", "PEM file of the certificate of --secure-metrics-address, reloaded when it changes; empty = self-signed (celvpa's own)")
	f.StringVar(&s.key, "secure-metrics-key-file", "", "PEM file of the key of --secure-metrics-cert-file (celvpa's own)")
}

// check refuses files that cannot be used.
func (s *secureMetrics) check() error {
	switch {
	case s.address == "" && s.cert+s.key != "":
		return errors.New("--secure-metrics-cert-file and --secure-metrics-key-file need --secure-metrics-address")
	case (s.cert == "") != (s.key == ""):
		return errors.New("--secure-metrics-cert-file and --secure-metrics-key-file belong together: give both or none")
	case s.cert == "":
		return nil
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return fmt.Errorf("--secure-metrics-cert-file and --secure-metrics-key-file: %w", err)
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		return fmt.Errorf("--secure-metrics-cert-file: the certificate in %s expired at %s; replace it", s.cert, end.UTC().Format(time.RFC3339))
	}
	return nil
}

// certificate is the source of the serving certificate, which the process must run.
func (s *secureMetrics) certificate(log logr.Logger) (manager.Runnable, getCertificate, error) {
	if s.cert != "" {
		watcher, err := certwatcher.New(s.cert, s.key)
		if err != nil {
			return nil, nil, fmt.Errorf("--secure-metrics-cert-file and --secure-metrics-key-file: %w", err)
		}
		return watcher, watcher.GetCertificate, nil
	}
	return selfSigned("--secure-metrics-address", log)
}

// selfSigned is a certificate that nobody can verify, for the address of a flag.
func selfSigned(flag string, log logr.Logger) (manager.Runnable, getCertificate, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, fmt.Errorf("finding this host's name for the certificate of %s: %w", flag, err)
	}
	own, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{host, "localhost"}, Unpublished: true, Clock: clock.RealClock{}, Log: log})
	if err != nil {
		return nil, nil, fmt.Errorf("preparing the certificate of %s: %w", flag, err)
	}
	return own, own.GetCertificate, nil
}

type getCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

const (
	// metricsConnections bounds the clients of --address and --secure-metrics-address: some Prometheuses, and kubelets that probe.
	metricsConnections = 100
	// metricsTimeout bounds a scrape, and metricsAtOnce those in flight: a client that reads slowly keeps them in memory.
	metricsTimeout = 10 * time.Second
	metricsAtOnce  = 5
)

// paths are what --address and --secure-metrics-address serve: without the latter, all is on the former; with it, health alone.
func (p *process) paths(o *options) (open, guarded map[string]http.Handler) {
	open, guarded = p.handlers(), map[string]http.Handler{
		"/metrics": promhttp.HandlerFor(registry.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: metricsAtOnce}),
	}
	if o.profiling {
		maps.Copy(guarded, profiles())
	}
	if o.secureMetrics.address == "" {
		maps.Copy(open, guarded)
		guarded = nil
	}
	return open, guarded
}

// serveMetrics adds the servers of metrics and health to the manager.
func (p *process) serveMetrics(o *options) error {
	log, s := ctrl.Log.WithName("metrics"), o.secureMetrics
	open, guarded := p.paths(o)
	if err := p.serve("health and metrics endpoint", o.address, nil, open, log); err != nil || guarded == nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	certificate, get, err := s.certificate(log)
	if err != nil {
		return err
	}
	guard := &inspect.Guard{Access: inspect.ToPath, Clock: clock.RealClock{}, Log: log, Client: p.manager.GetClient()}
	for path, handler := range guarded {
		guarded[path] = guard.Wrap(handler)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get}
	return errors.Join(p.manager.Add(certificate), p.serve("metrics endpoint of --secure-metrics-address", s.address, config, guarded, log))
}

// serve adds a server that is there before the caches have synced.
func (p *process) serve(name, address string, config *tls.Config, paths map[string]http.Handler, log logr.Logger) error {
	mux := http.NewServeMux()
	for path, handler := range paths {
		mux.Handle(path, handler)
	}
	server := &listener.Server{Name: name, Address: address, TLS: config, Handler: mux, Log: log, MaxConnections: metricsConnections, Interrupts: true,
		AnswerTimeout: metricsTimeout}
	early, err := server.BeforeCaches()
	if err != nil {
		return err
	}
	return p.manager.Add(early)
}

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

// explain serves what the components of this process know on --explain-address. All of them have joined.
func (p *process) explain(o *options) error {
	if o.explainAddress == "" {
		return nil
	}
	log := ctrl.Log.WithName("explain")
	certificate, get, err := selfSigned("--explain-address", log)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding this host's name for --explain-address: %w", err)
	}
	return errors.Join(p.manager.Add(certificate), p.manager.Add(&inspect.Server{
		Sources: p.explains, Address: o.explainAddress, Certificate: get, Client: p.manager.GetClient(), Namespaces: o.namespaces(),
		Elected: p.manager.Elected(), Instance: host, Version: newBuildInfo().Version, Clock: clock.RealClock{}, Log: log,
	}))
}
