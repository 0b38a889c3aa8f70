package webhook

import (
	"cmp"
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
	// readTimeout bounds the arrival of a request after its header. API servers send theirs at once.
	readTimeout = 5 * time.Second
	// clientIdle bounds the handshake, the wait for a request of a connection, and the arrival of its header. API servers open
	// connections that they do not use at once, and close idle ones after 90 seconds. A server that closes one first may do so just
	// as a review is being sent, and API servers do not send it again. Connections without a request keep no review out in the
	// meantime; see connections.
	clientIdle = 2 * time.Minute
	// maxConnections bounds the connected clients; see connections. An API server needs one for each review in flight, and each
	// takes about 60 KiB.
	maxConnections = 1000
	// maxHeaderBytes is several times what API servers send.
	maxHeaderBytes = 16 << 10
	// drainTimeout is how long reviews in flight may take when this process stops.
	drainTimeout = 20 * time.Second
)

// Listener serves HTTPS over HTTP/1.1, which is what API servers ask webhooks for. Without HTTP/2, a client cannot have many requests
// in flight over one connection. It listens only once it is started; until then, connections of API servers are refused at once
// instead of hanging.
type Listener struct {
	Address string // host:port
	TLS     *tls.Config
	Handler http.Handler
	Log     logr.Logger
	// Stopping reports whether this server is about to stop. From then on each answer ends its connection, so that few are open when
	// Start's context ends: a client that writes to one which is being closed cannot know whether the request was read. nil = never.
	Stopping func() bool

	serving                 atomic.Bool
	clientIdle, readTimeout time.Duration // 0 = the constants
}

// NeedLeaderElection is false: every replica serves.
func (l *Listener) NeedLeaderElection() bool { return false }

// Started returns an error until the listener accepts requests.
func (l *Listener) Started() error {
	if !l.serving.Load() {
		return errors.New("the webhook is not listening yet")
	}
	return nil
}

// Start serves until the context ends, then finishes the reviews in flight. It fails when the address is taken.
func (l *Listener) Start(ctx context.Context) error {
	listener, err := net.Listen("tcp", l.Address)
	if err != nil {
		return fmt.Errorf("listening for the webhook: %w", err)
	}
	return l.serveOn(ctx, listener)
}

// serveOn serves the connections of a listener until the context ends.
func (l *Listener) serveOn(ctx context.Context, listener net.Listener) error {
	open := &connections{most: maxConnections, open: map[net.Conn]connection{}}
	idle := cmp.Or(l.clientIdle, clientIdle)
	server := &http.Server{
		Handler: http.HandlerFunc(l.serve), MaxHeaderBytes: maxHeaderBytes,
		IdleTimeout: idle, ReadHeaderTimeout: idle,
		ConnState: open.changed,
		TLSConfig: l.TLS,
		// Port scanners fail handshakes all the time.
		ErrorLog:  log.New(lines{l.Log.V(1)}, "", 0),
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		<-ctx.Done()
		l.serving.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			l.Log.Error(err, "shutdown timed out with reviews in flight")
		}
	}()
	l.serving.Store(true)
	l.Log.Info("webhook listening", "address", listener.Addr().String())
	// While all connections have a request in flight, there is none to close, and new clients wait here.
	if err := server.ServeTLS(netutil.LimitListener(listener, maxConnections), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the webhook on %s: %w", l.Address, err)
	}
	<-drained
	return nil
}

func (l *Listener) serve(w http.ResponseWriter, r *http.Request) {
	if l.Stopping != nil && l.Stopping() {
		w.Header().Set("Connection", "close")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(cmp.Or(l.readTimeout, readTimeout))) // only writers of tests cannot
	l.Handler.ServeHTTP(w, r)
}

// lines writes the standard library's log to ours.
type lines struct{ log logr.Logger }

// Write implements io.Writer.
func (l lines) Write(text []byte) (int, error) {
	l.log.Info("HTTPS server", "detail", strings.TrimSpace(string(text)))
	return len(text), nil
}

// TLSConfig reads the flags --min-tls-version (tls1_2, the default, or tls1_3) and --tls-ciphers: names of Go's cipher suites,
// separated by commas or colons; those of TLS 1.3 cannot be chosen. It logs and ignores suites that Go does not know or calls
// insecure. If none is left, Go chooses (UPSTREAM.md §4.1).
func TLSConfig(minVersion, ciphers string, log logr.Logger) (*tls.Config, error) {
	config := &tls.Config{NextProtos: []string{"http/1.1"}}
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
	for _, name := range strings.FieldsFunc(ciphers, func(r rune) bool { return r == ',' || r == ':' }) {
		name = strings.TrimSpace(name)
		switch suite := known[name]; {
		case name == "":
		case suite == nil:
			unknown = append(unknown, name)
		default:
			config.CipherSuites = append(config.CipherSuites, suite.ID)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		log.Info("ignoring unknown or insecure cipher suites in --tls-ciphers; use the names of secure suites in Go's crypto/tls", "unknown", unknown)
	}
	return config, nil
}
