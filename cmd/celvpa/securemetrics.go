package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
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
