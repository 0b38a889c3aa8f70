package listener

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/webhook/certificates"
)

const testConnections = 200

// start gives a server an address, and a certificate if it has TLS, and runs it until the test ends. It returns its URL, a client
// that trusts it, and its end.
func start(t *testing.T, s *Server) (url string, c *http.Client, stop func() error) {
	t.Helper()
	s.Name, s.Address, s.MaxConnections = "test", freeAddress(t), testConnections
	scheme, transport := "http://", &http.Transport{}
	if s.TLS != nil {
		certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clock.RealClock{}, Log: logr.Discard()})
		require.NoError(t, err)
		s.TLS.GetCertificate = certs.GetCertificate
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(certs.Bundle().PEM()))
		scheme, transport.TLSClientConfig = "https://", &tls.Config{RootCAs: roots}
	}
	require.ErrorContains(t, s.Started(), "the test is not listening yet")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	hang.Until(t, func() bool { return s.Started() == nil })
	t.Cleanup(cancel)
	return scheme + s.Address, &http.Client{Transport: transport, Timeout: hang.Limit}, func() error { cancel(); return <-done }
}

func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer free.Close()
	return free.Addr().String()
}

func TestATakenPortIsAnError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	s := &Server{Name: "test", Address: taken.Addr().String(), MaxConnections: 1, Log: logr.Discard()}
	require.ErrorIs(t, s.Start(t.Context()), syscall.EADDRINUSE)
	_, err = s.BeforeCaches()
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}

// TestLongHeadersAreRefused: 600 connections with headers of a mebibyte took 493 MiB from a port without this bound.
func TestLongHeadersAreRefused(t *testing.T) {
	url, c, stop := start(t, &Server{Handler: http.NotFoundHandler(), Log: logr.Discard()})
	for size, want := range map[int]int{8 << 10: http.StatusNotFound, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		for name, add := range map[string]func(http.Header){
			"one long header": func(h http.Header) { h.Set("X-Long", strings.Repeat("a", size)) },
			"many short ones": func(h http.Header) {
				for i := range size / 10 {
					h.Set(fmt.Sprintf("X-%05d", i), "")
				}
			},
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			require.NoError(t, err)
			add(request.Header)
			answer, err := c.Do(request)
			require.NoError(t, err, name)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, want, answer.StatusCode, name)
		}
	}
	require.NoError(t, stop())
}

// TestRequestsThatDoNotEndKeepNoProbeOut: clients send a request each and never read the answer, on every connection that the server
// allows.
func TestRequestsThatDoNotEndKeepNoProbeOut(t *testing.T) {
	large := bytes.Repeat([]byte("a"), 16<<20) // more than the sockets hold
	busy := make(chan struct{}, testConnections)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			busy <- struct{}{}
			_, _ = w.Write(large)
		}
	})
	url, c, stop := start(t, &Server{Handler: handler, Log: logr.Discard(), Interrupts: true})
	var conns []net.Conn
	for range testConnections {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		conns = append(conns, conn)
		_, err = io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: test\r\n\r\n")
		require.NoError(t, err)
		<-busy
	}
	answer, err := c.Get(url)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	for _, conn := range conns {
		conn.Close()
	}
	require.NoError(t, stop())
}

// TestAnAnswerThatIsNotReadIsCutOff keeps no memory for good.
func TestAnAnswerThatIsNotReadIsCutOff(t *testing.T) {
	ended := make(chan error, 1)
	url, _, stop := start(t, &Server{Log: logr.Discard(), AnswerTimeout: 50 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(bytes.Repeat([]byte("a"), 16<<20))
		ended <- err
	})})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
	require.NoError(t, err)
	require.ErrorContains(t, <-ended, "timeout")
	require.NoError(t, stop())
}
