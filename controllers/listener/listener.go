// Package listener serves HTTP on the ports of a process. What a client may take is bounded in the same way on each of them: memory
// by the size of headers and the number of connections, and time by closing those without a request.
package listener

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// readTimeout bounds the arrival of a request after its header. API servers send theirs at once.
	readTimeout = 5 * time.Second
	// clientIdle bounds the handshake, the wait for a request of a connection, and the arrival of its header. API servers open
	// connections that they do not use at once, and close idle ones after 90 seconds. A server that closes one first may do so just
	// as a review is being sent, and API servers do not send it again. Connections without a request keep nobody out in the
	// meantime; see connections.
	clientIdle = 2 * time.Minute
	// maxHeaderBytes is several times what API servers, Prometheus and celvpa explain send.
	maxHeaderBytes = 16 << 10
	// drainTimeout is how long requests in flight may take when this process stops.
	drainTimeout = 20 * time.Second
)

// Server serves HTTP/1.1, over TLS or not. Without HTTP/2, a client cannot have many requests in flight over one connection. It
// listens only once it is started; until then, connections are refused at once instead of hanging.
type Server struct {
	Name    string      // what it serves, for log and errors
	Address string      // host:port
	TLS     *tls.Config // nil = plain HTTP
	Handler http.Handler
	Log     logr.Logger
	// MaxConnections bounds the connected clients, greater than 0. Each takes up to 60 KiB.
	MaxConnections int
	// Interrupts: when all connections have a request in flight, the oldest of them is closed for a new one, so that probes get
	// through. Otherwise new clients wait.
	Interrupts bool
	// Stopping reports whether this server is about to stop. From then on each answer ends its connection, so that few are open when
	// Start's context ends: a client that writes to one which is being closed cannot know whether the request was read. nil = never.
	Stopping func() bool
	// AnswerTimeout bounds a request, from the end of its header to the end of its answer; 0 = not at all.
	AnswerTimeout time.Duration
	// ReadTimeout bounds the arrival of a request after its header; 0 = 5 seconds. Idle bounds connections without a request;
	// 0 = 2 minutes.
	ReadTimeout, Idle time.Duration

	serving atomic.Bool
}

// NeedLeaderElection is false: every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Started returns an error until the server accepts requests. It is that of Start only.
func (s *Server) Started() error {
	if !s.serving.Load() {
		return fmt.Errorf("the %s is not listening yet", s.Name)
	}
	return nil
}

// Start serves until the context ends, then finishes the requests in flight. It fails when the address is taken.
func (s *Server) Start(ctx context.Context) error {
	server, err := s.BeforeCaches()
	if err != nil {
		return err
	}
	return s.run(ctx, server)
}

func (s *Server) run(ctx context.Context, server *manager.Server) error {
	s.serving.Store(true)
	defer s.serving.Store(false)
	defer context.AfterFunc(ctx, func() { s.serving.Store(false) })() // before requests in flight have ended
	if err := server.Start(log.IntoContext(ctx, s.Log)); err != nil {
		return fmt.Errorf("serving the %s on %s: %w", s.Name, s.Address, err)
	}
	return nil
}

// BeforeCaches returns a server that a manager starts before its caches have synced, and takes the address at once.
func (s *Server) BeforeCaches() (*manager.Server, error) {
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		return nil, fmt.Errorf("listening for the %s: %w", s.Name, err)
	}
	return s.on(listener), nil
}

func (s *Server) on(listener net.Listener) *manager.Server {
	return &manager.Server{Name: s.Name, Server: s.http(), Listener: s.bounded(listener), ShutdownTimeout: ptr.To(drainTimeout)}
}

func (s *Server) http() *http.Server {
	open := &connections{most: s.MaxConnections, interrupts: s.Interrupts, open: map[net.Conn]connection{}}
	idle := cmp.Or(s.Idle, clientIdle)
	server := &http.Server{
		Handler: http.HandlerFunc(s.serve), MaxHeaderBytes: maxHeaderBytes,
		IdleTimeout: idle, ReadHeaderTimeout: idle,
		ConnState: open.changed,
		// Port scanners fail handshakes all the time.
		ErrorLog:  stdlog.New(lines{s.Log.V(1)}, "", 0),
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	return server
}

// bounded encrypts connections, and bounds their number: where all have a request in flight, there is none to close, and new clients
// wait here.
func (s *Server) bounded(listener net.Listener) net.Listener {
	if !s.Interrupts {
		listener = netutil.LimitListener(listener, s.MaxConnections)
	}
	if s.TLS == nil {
		return listener
	}
	config := s.TLS.Clone()
	config.NextProtos = []string{"http/1.1"}
	return tls.NewListener(listener, config)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.Stopping != nil && s.Stopping() {
		w.Header().Set("Connection", "close")
	}
	now, set := time.Now(), http.NewResponseController(w)
	_ = set.SetReadDeadline(now.Add(cmp.Or(s.ReadTimeout, readTimeout))) // only writers of tests cannot
	if s.AnswerTimeout > 0 {
		_ = set.SetWriteDeadline(now.Add(s.AnswerTimeout))
	}
	s.Handler.ServeHTTP(w, r)
}

// lines writes the standard library's log to ours.
type lines struct{ log logr.Logger }

// Write implements io.Writer.
func (l lines) Write(text []byte) (int, error) {
	l.log.Info("HTTP server", "detail", strings.TrimSpace(string(text)))
	return len(text), nil
}
