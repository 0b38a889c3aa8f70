package webhook

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
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
			url, c, _ := start(t, &Listener{TLS: &tls.Config{}, Handler: served, Log: logr.Discard(), clientIdle: time.Hour})
			for range maxConnections {
				conn := connect(t, strings.TrimPrefix(url, "https://"))
				defer conn.Close()
			}
			c.Timeout = 10 * time.Second
			resp, err := c.Get(url)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			c.CloseIdleConnections()
		})
	}
}

func TestConnectionWithoutARequestIsClosedOnceAPIServersHaveGivenItUp(t *testing.T) {
	url, _, _ := start(t, &Listener{TLS: &tls.Config{}, Handler: http.NotFoundHandler(), Log: logr.Discard(), clientIdle: 50 * time.Millisecond})
	address := strings.TrimPrefix(url, "https://")
	silent, err := net.Dial("tcp", address)
	require.NoError(t, err)
	shaken, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	partial, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	_, err = io.WriteString(partial, "POST / HTTP/1.1\r\nHost:")
	require.NoError(t, err)
	for name, conn := range map[string]net.Conn{"nothing sent": silent, "a handshake": shaken, "part of a header": partial} {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err := io.ReadAll(conn)
		require.NoError(t, err, name) // the server's end of it
	}
}

func TestWhichConnectionMakesRoom(t *testing.T) {
	const n, a, i = http.StateNew, http.StateActive, http.StateIdle
	type change struct {
		of    int
		state http.ConnState
	}
	for name, tt := range map[string]struct {
		changes []change
		closed  int // 0 = none
	}{
		"none while there is room":                           {[]change{{1, n}, {2, n}}, 0},
		"the oldest that sent nothing":                       {[]change{{1, n}, {2, n}, {3, n}}, 1},
		"one that sent nothing rather than an idle one":      {[]change{{1, n}, {1, a}, {1, i}, {2, n}, {3, n}}, 2},
		"the one that is idle for longest":                   {[]change{{1, n}, {2, n}, {1, a}, {2, a}, {2, i}, {1, i}, {3, n}}, 2},
		"no review in flight, and not the new one":           {[]change{{1, n}, {1, a}, {2, n}, {2, a}, {3, n}}, 0},
		"the first of two that become idle while no room is": {[]change{{1, n}, {1, a}, {2, n}, {2, a}, {3, n}, {3, a}, {1, i}, {2, i}}, 1},
		"none after one has ended":                           {[]change{{1, n}, {2, n}, {1, http.StateClosed}, {3, n}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := &connections{most: 3, open: map[net.Conn]connection{}}
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

// TestAConnectionThatIsUsedLateIsServed: API servers open connections in advance, and send a review whenever there is one.
func TestAConnectionThatIsUsedLateIsServed(t *testing.T) {
	t.Parallel()
	require.Greater(t, clientIdle, 90*time.Second, "client-go closes idle connections after 90 seconds, and has to be first")
	url, _, _ := start(t, &Listener{TLS: &tls.Config{}, Handler: http.NotFoundHandler(), Log: logr.Discard()})
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(6*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it was closed after five seconds")
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: webhook\r\n\r\n")
	require.NoError(t, err)
	answer := make([]byte, 12)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 404", string(answer))
}
