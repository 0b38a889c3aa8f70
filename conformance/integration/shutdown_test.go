package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
)

// service forwards connections to one of several replicas, like a Service; open connections stay
// where they are.
type service struct {
	net.Listener
	endpoint atomic.Pointer[string] // host:port
	open     sync.Map               // of connections
}

// drop closes the open connections.
func (s *service) drop() {
	s.open.Range(func(one, _ any) bool { return one.(net.Conn).Close() == nil })
}

func newService(t *testing.T) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &service{Listener: listener}
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go s.pass(from)
		}
	}()
	return s
}

func (s *service) pass(from net.Conn) {
	s.open.Store(from, nil)
	defer s.open.Delete(from)
	defer from.Close()
	to, err := net.Dial("tcp", *s.endpoint.Load())
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		defer from.Close()
		_, _ = io.Copy(from, to)
	}()
	_, _ = io.Copy(to, from)
}

// TestARollingUpdateRefusesNoPod: with failurePolicy Fail, one replica replaces another behind a
// Service that lags, while pods are created. Where the machine takes longer than the old replica goes
// on, which would be a delay that is too short for its Service, it is done again with a longer one.
func TestARollingUpdateRefusesNoPod(t *testing.T) {
	withoutCelvpa(t)
	for delay := 3 * time.Second; ; delay *= 5 {
		require.Less(t, delay, 2*hang.Limit)
		if rollingUpdate(t, delay) {
			return
		}
		t.Logf("this machine takes more than %s until the Service has noticed", delay)
	}
}

// rollingUpdate reports whether the old replica still ran when its Service no longer led to it.
func rollingUpdate(t *testing.T, delay time.Duration) (inTime bool) {
	front := newService(t)
	_, port, err := net.SplitHostPort(front.Addr().String())
	require.NoError(t, err)
	replica := func(name string) (one *harness.Celvpa, endpoint string) {
		ports := [2]string{}
		for i := range ports {
			ports[i], err = harness.FreeAddress()
			require.NoError(t, err)
		}
		_, own, err := net.SplitHostPort(ports[1])
		require.NoError(t, err)
		one, err = harness.Start(program, ports[0], filepath.Join(t.TempDir(), name+".log"), []string{"admission-controller", "--kubeconfig=" + kubeconfig, "--webhook-failure-policy-fail",
			"--register-by-url", "--webhook-address=127.0.0.1", "--webhook-port=" + port, "--webhook-timeout-seconds=30",
			"--bind-address=127.0.0.1", "--port=" + own, "--address=" + ports[0], fmt.Sprint("--shutdown-delay-duration=", delay)}, nil)
		require.NoError(t, err)
		require.NoError(t, one.WaitReady(t.Context()))
		return one, ports[1]
	}
	old, oldEndpoint := replica("old")
	front.endpoint.Store(&oldEndpoint)
	refuseAtOnce(t)
	defer unregister(t)
	load := createPods(t, namespace(t, "it-rolling-"+delay.String()))
	load.more(t, 20)
	next, nextEndpoint := replica("next")
	defer func() { require.NoError(t, next.Stop()) }()

	stopped := make(chan error, 1)
	asked := time.Now()
	go func() { stopped <- old.Stop() }()
	hang.Eventually(t, "/readyz to fail", func(ctx context.Context) (bool, error) {
		if old.Alive() != nil {
			return true, nil
		}
		answer, err := http.Get("http://" + old.Address + "/readyz")
		if err != nil {
			return false, err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer.StatusCode == http.StatusInternalServerError && string(body) == "shutting down\n", err
	})
	load.more(t, 20) // the Service has not noticed yet
	front.endpoint.Store(&nextEndpoint)
	if inTime = time.Since(asked) < delay && old.Alive() == nil; !inTime {
		_ = load.end()
		<-stopped
		return false
	}
	require.NoError(t, <-stopped)
	took := time.Since(asked)
	require.GreaterOrEqual(t, took, delay)
	load.more(t, 20)
	require.NoError(t, load.end(), "every creation succeeds")
	require.Equal(t, load.counts().created, load.counts().patched, "and is patched")
	t.Logf("%d pods created and patched; the old replica ended %s after SIGTERM", load.counts().created, took.Round(time.Millisecond))
	return true
}
