package listener

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/webhook/certificates"
)

func TestConnectionsWithoutARequestKeepNoReviewOut(t *testing.T) {
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	secret := &tls.Config{InsecureSkipVerify: true}
	for name, connect := range map[string]func(t *testing.T, address string) net.Conn{
		"that send nothing": func(t *testing.T, address string) net.Conn {
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			return conn
		},
		"that send nothing after the handshake": func(t *testing.T, address string) net.Conn {
			conn, err := tls.Dial("tcp", address, secret)
			require.NoError(t, err)
			return conn
		},
		"that send part of a header": func(t *testing.T, address string) net.Conn {
			conn, err := tls.Dial("tcp", address, secret)
			require.NoError(t, err)
			_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost:")
			require.NoError(t, err)
			return conn
		},
		"that are idle after a request": func(t *testing.T, address string) net.Conn {
			conn, err := tls.Dial("tcp", address, secret)
			require.NoError(t, err)
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: webhook\r\n\r\n")
			require.NoError(t, err)
			_, err = conn.Read(make([]byte, 1024))
			require.NoError(t, err)
			return conn
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, c, _ := start(t, &Server{TLS: &tls.Config{}, Handler: served, Log: logr.Discard(), Idle: time.Hour})
			for range testConnections {
				conn := connect(t, strings.TrimPrefix(url, "https://"))
				defer conn.Close()
			}
			c.Timeout = hang.Limit
			resp, err := c.Get(url)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			c.CloseIdleConnections()
		})
	}
}

// pipes is a listener whose connections are in memory, so that they may wait on the clock of a synctest.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	client, server := net.Pipe()
	p <- server
	return client
}

// piped serves connections in memory until the test ends.
func piped(t *testing.T) pipes {
	certs, err := certificates.NewSelfSigned(certificates.SelfSignedOptions{Hosts: []string{"127.0.0.1"}, Clock: clock.RealClock{}, Log: logr.Discard()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	l, p, done := &Server{Name: "test", TLS: &tls.Config{GetCertificate: certs.GetCertificate}, Handler: http.NotFoundHandler(), Log: logr.Discard(), MaxConnections: 10}, make(pipes), make(chan error)
	go func() { done <- l.run(ctx, l.on(p)) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return p
}

func shaken(t *testing.T, conn net.Conn) net.Conn {
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, secure.Handshake())
	return secure
}

func TestConnectionWithoutARequestIsClosedOnceAPIServersHaveGivenItUp(t *testing.T) {
	require.Greater(t, clientIdle, 90*time.Second, "client-go closes idle connections after 90 seconds, and has to be first")
	for name, connect := range map[string]func(*testing.T, net.Conn) net.Conn{
		"nothing sent": func(_ *testing.T, conn net.Conn) net.Conn { return conn },
		"a handshake":  shaken,
		"part of a header": func(t *testing.T, conn net.Conn) net.Conn {
			conn = shaken(t, conn)
			_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost:")
			require.NoError(t, err)
			return conn
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, conn := time.Now(), connect(t, piped(t).dial())
				_, err := io.ReadAll(conn)
				require.NoError(t, err) // the server's end of it
				require.Equal(t, clientIdle, time.Since(begin))
			})
		})
	}
}

// TestAConnectionThatIsUsedLateIsServed: API servers open connections in advance, and send a review whenever there is one.
func TestAConnectionThatIsUsedLateIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := shaken(t, piped(t).dial())
		defer conn.Close()
		time.Sleep(clientIdle - 1)
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: webhook\r\n\r\n")
		require.NoError(t, err)
		answer := make([]byte, 12)
		_, err = io.ReadFull(conn, answer)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 404", string(answer))
	})
}

func TestWhichConnectionMakesRoom(t *testing.T) {
	const n, a, i = http.StateNew, http.StateActive, http.StateIdle
	type change struct {
		of    int
		state http.ConnState
	}
	for name, tt := range map[string]struct {
		changes    []change
		closed     int // 0 = none
		interrupts bool
	}{
		"none while there is room":                           {[]change{{1, n}, {2, n}}, 0, false},
		"the oldest that sent nothing":                       {[]change{{1, n}, {2, n}, {3, n}}, 1, false},
		"one that sent nothing rather than an idle one":      {[]change{{1, n}, {1, a}, {1, i}, {2, n}, {3, n}}, 2, false},
		"the one that is idle for longest":                   {[]change{{1, n}, {2, n}, {1, a}, {2, a}, {2, i}, {1, i}, {3, n}}, 2, false},
		"no review in flight, and not the new one":           {[]change{{1, n}, {1, a}, {2, n}, {2, a}, {3, n}}, 0, false},
		"the first of two that become idle while no room is": {[]change{{1, n}, {1, a}, {2, n}, {2, a}, {3, n}, {3, a}, {1, i}, {2, i}}, 1, false},
		"none after one has ended":                           {[]change{{1, n}, {2, n}, {1, http.StateClosed}, {3, n}}, 0, false},
		"the request in flight for longest":                  {[]change{{1, n}, {2, n}, {2, a}, {1, a}, {3, n}}, 2, true},
		"one that is idle rather than a request in flight":   {[]change{{1, n}, {1, a}, {2, n}, {2, a}, {2, i}, {3, n}}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &connections{most: 3, interrupts: tt.interrupts, open: map[net.Conn]connection{}}
			conns := map[int]net.Conn{}
			for of := 1; of <= 3; of++ {
				conns[of], _ = net.Pipe()
			}
			var closed net.Conn
			for _, change := range tt.changes {
				require.Nil(t, closed, "only the last change makes room")
				closed = c.track(conns[change.of], change.state)
			}
			require.Equal(t, conns[tt.closed], closed)
			require.Nil(t, c.track(closed, a), "it is no longer counted")
			require.NotContains(t, c.open, closed)
		})
	}
}
