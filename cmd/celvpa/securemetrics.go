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
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/celvpa/celvpa/controllers/apiauth"
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

// metricsServer returns the options of a manager's server of metrics, and what to do when there is a manager: without
// --secure-metrics-address all paths are on --address; with it, a server of its own has the health there.
func (p *process) metricsServer(o *options) (metricsserver.Options, func() error, error) {
	paths, s := p.handlers(), o.secureMetrics
	if s.address == "" {
		if o.profiling {
			maps.Copy(paths, profiles())
		}
		return metricsserver.Options{BindAddress: o.address, ExtraHandlers: paths}, func() error { return nil }, nil
	}
	if err := s.check(); err != nil {
		return metricsserver.Options{}, nil, err
	}
	log := ctrl.Log.WithName("metrics")
	certificate, get, err := s.certificate(log)
	if err != nil {
		return metricsserver.Options{}, nil, err
	}
	guard := &apiauth.Guard{Access: apiauth.ToPath, Clock: clock.RealClock{}, Log: log}
	options := metricsserver.Options{
		BindAddress: s.address, SecureServing: true, TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = get }},
		FilterProvider: func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
			return func(_ logr.Logger, next http.Handler) (http.Handler, error) { return guard.Wrap(next), nil }, nil
		},
	}
	if o.profiling {
		options.ExtraHandlers = profiles()
	}
	mux := http.NewServeMux()
	for path, handler := range paths {
		mux.Handle(path, handler)
	}
	health := &manager.Server{Name: "health", Server: &http.Server{Addr: o.address, Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}}
	return options, func() error {
		guard.Client = p.manager.GetClient()
		return errors.Join(p.manager.Add(certificate), p.manager.Add(health))
	}, nil
}
