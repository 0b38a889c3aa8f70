package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
)

const (
	// readTimeout is how long a request may take to arrive. API servers send theirs at once.
	readTimeout = 30 * time.Second
	// mostConnections is how many clients may be connected; others wait. An API server needs a few, and each costs some 60 KiB.
	mostConnections = 1000
	// mostStreams is how many reviews one HTTP/2 connection may have in flight. API servers open another connection for more.
	mostStreams = 250
	// mostHeaderBytes is several times what API servers send.
	mostHeaderBytes = 16 << 10
	// drainTimeout is how long reviews that were begun may take when this process stops.
	drainTimeout = 20 * time.Second
)

// Listener serves HTTPS, HTTP/2 as well as HTTP/1.1, while its context lasts. It listens when it is started: before that, API servers
// know at once that they are not answered.
type Listener struct {
	Address string // host:port
	TLS     *tls.Config
	Handler http.Handler
	Log     logr.Logger

	serving atomic.Bool
}

// NeedLeaderElection lets every replica serve.
func (l *Listener) NeedLeaderElection() bool { return false }

// Started reports an error until requests are accepted.
func (l *Listener) Started() error {
	if !l.serving.Load() {
		return errors.New("the webhook does not listen yet")
	}
	return nil
}

// Start serves until the context ends, and brings what was begun to its end. It fails when the address is taken.
func (l *Listener) Start(ctx context.Context) error {
	listener, err := net.Listen("tcp", l.Address)
	if err != nil {
		return fmt.Errorf("listening for the webhook: %w", err)
	}
	server := &http.Server{
		Handler: l.Handler, MaxHeaderBytes: mostHeaderBytes, IdleTimeout: 90 * time.Second, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout,
		TLSConfig: l.TLS,
		// What handshakes of others fail of, and there are port scanners.
		ErrorLog: log.New(lines{l.Log.V(1)}, "", 0),
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: mostStreams},
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(slices.Contains(l.TLS.NextProtos, "h2"))
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		<-ctx.Done()
		l.serving.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			l.Log.Error(err, "not all reviews came to their end")
		}
	}()
	l.serving.Store(true)
	l.Log.Info("the webhook listens", "address", listener.Addr().String())
	if err := server.ServeTLS(netutil.LimitListener(listener, mostConnections), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the webhook on %s: %w", l.Address, err)
	}
	<-drained
	return nil
}

// lines are those of the standard library's log.
type lines struct{ log logr.Logger }

// Write implements io.Writer.
func (l lines) Write(text []byte) (int, error) {
	l.log.Info("the HTTPS server says", "what", strings.TrimSpace(string(text)))
	return len(text), nil
}

// TLSConfig reads the flags --min-tls-version (tls1_2, tls1_3 or empty, what is tls1_2) and --tls-ciphers (names of Go's cipher
// suites, separated by commas or colons; those of TLS 1.3 cannot be chosen). Suites that Go does not know, or that it calls
// insecure, are left out with a line in the log; without one that is left it is Go who chooses (UPSTREAM.md §4.1).
func TLSConfig(minVersion, ciphers string, log logr.Logger) (*tls.Config, error) {
	config := &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	switch minVersion {
	case "", "tls1_2":
		config.MinVersion = tls.VersionTLS12
	case "tls1_3":
		config.MinVersion = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("--min-tls-version is %q; use tls1_2 or tls1_3", minVersion)
	}
	known := map[string]*tls.CipherSuite{}
	for _, suite := range tls.CipherSuites() {
		known[suite.Name] = suite
	}
	var unknown []string
	http2 := config.MinVersion == tls.VersionTLS13
	for _, name := range strings.FieldsFunc(ciphers, func(r rune) bool { return r == ',' || r == ':' }) {
		name = strings.TrimSpace(name)
		switch suite := known[name]; {
		case name == "":
		case suite == nil:
			unknown = append(unknown, name)
		default:
			config.CipherSuites = append(config.CipherSuites, suite.ID)
			http2 = http2 || suite.ID == tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 || suite.ID == tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		log.Info("--tls-ciphers has cipher suites that are left out; use names of Go's crypto/tls that are not insecure", "unknown", unknown)
	}
	if len(config.CipherSuites) > 0 && !http2 { // the standard demands one of the two for HTTP/2
		log.Info("HTTP/2 is off, because --tls-ciphers has none of the suites that it needs: add TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
		config.NextProtos = []string{"http/1.1"}
	}
	return config, nil
}
