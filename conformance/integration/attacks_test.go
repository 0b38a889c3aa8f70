package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

// attack is what a stranger sends to one port.
type attack struct {
	name string
	on   func(t *testing.T, a *attacked, p port)
	log  bool // how much it writes to the log is judged
}

// attacks once exhausted the memory or the disk of an admission controller, or kept everybody else waiting.
var attacks = []attack{
	// 150 connections with one byte each took 841 MiB. The webhook's listener accepts 1000.
	{name: "bodies that stop after one byte", on: func(t *testing.T, a *attacked, p port) {
		for range p.times(900) {
			if conn := p.dial(a.tls); conn != nil {
				t.Cleanup(func() { _ = conn.Close() })
				_, _ = io.WriteString(conn, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5242880\r\n\r\n{")
			}
		}
		a.holds(t, p)
	}},
	// Over HTTP/2 one connection with 600 bodies that stop took 3.15 GB, and 20,000 streams that were reset at once 4 GB.
	{name: "HTTP/2", on: func(t *testing.T, a *attacked, p port) {
		config := a.tls.Clone()
		config.NextProtos = []string{"h2"}
		for range p.times(600) {
			conn := p.dial(config)
			if !p.plain() {
				require.Nil(t, conn, "no application protocol")
				continue
			}
			require.NotNil(t, conn)
			_, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
			require.NoError(t, err)
			answer := make([]byte, 9)
			_, err = io.ReadFull(conn, answer)
			require.True(t, err != nil || string(answer) == "HTTP/1.1 ", "%q", answer)
			require.NoError(t, conn.Close())
		}
	}},
	// 4.5 MB took up to 1.8 GB.
	{name: "small JSON that decodes to much memory", on: func(t *testing.T, a *attacked, p port) {
		c := a.client()
		defer c.CloseIdleConnections()
		var group sync.WaitGroup
		for _, pod := range []string{
			`{"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat(`{},`, 1_500_000), ",") + `]}}`,
			`{"spec":{"containers":[{"resources":{"requests":{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, 700_000), ",") + `}}}]}}`,
			`{"metadata":{"labels":` + strings.Repeat("[", 2_000_000) + strings.Repeat("]", 2_000_000) + `}}`,
		} {
			review := fmt.Sprintf(honestReview, pod)
			for range 8 {
				group.Go(func() { _ = sent(c, p.url(), "application/json", review) }) // whatever it answers
			}
		}
		group.Wait()
	}},
	// One request wrote up to 60 kB, 1.5 MB and 400 kB.
	{name: "long texts for the log", log: true, on: func(t *testing.T, a *attacked, p port) {
		c := a.client()
		defer c.CloseIdleConnections()
		for range p.times(100) {
			for kind, body := range map[string]string{
				strings.Repeat("x", 10<<10): "{}",
				"application/json":          `{"apiVersion":"` + strings.Repeat("v", 1<<20) + `"}`,
				"Application/JSON":          fmt.Sprintf(honestReview, `{"metadata":{"name":"`+strings.Repeat("n", 200<<10)+`"},"spec":{"containers":7}}`),
			} {
				err := sent(c, p.url()+"?"+strings.Repeat("q", 4<<10), kind, body)
				require.True(t, err == nil || !p.webhook(), err) // others need not read it
			}
			request, err := http.NewRequest(http.MethodGet, p.url(), nil)
			require.NoError(t, err)
			request.Header.Set("Authorization", "Bearer "+strings.Repeat("t", 8<<10))
			if resp, err := c.Do(request); err == nil {
				_ = resp.Body.Close()
			}
		}
	}},
	// They kept all others waiting for 30 seconds.
	{name: "connections that send nothing", on: func(t *testing.T, a *attacked, p port) {
		for range p.times(1500) {
			if conn, err := net.Dial("tcp", p.address); err == nil {
				t.Cleanup(func() { _ = conn.Close() })
			}
		}
		a.holds(t, p)
	}},
	// 600 connections with long headers to the port of metrics took 493 MiB, 1500 took 1.95 GB, and probes were not answered.
	{name: "headers without end", on: func(t *testing.T, a *attacked, p port) {
		for _, header := range []string{"X-Long: " + strings.Repeat("a", 1<<20), strings.Repeat("a:\r\n", 200<<10)} {
			for range p.times(600) {
				if conn := p.dial(a.tls); conn != nil {
					t.Cleanup(func() { _ = conn.Close() })
					_ = conn.SetDeadline(time.Now().Add(time.Second))
					_, _ = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n"+header) // it may be cut off
				}
			}
			a.serves(t, p)
		}
	}},
}

// TestAttacks runs every attack against every port of every component. One process of each withstands them all, so leftovers of one
// count for the next.
func TestAttacks(t *testing.T) {
	ns := namespace(t, "it-attacks")
	v := vpa(ns, "custom", vpav1.UpdateModeOff) // so that custom owners in this namespace are looked up
	v.Spec.TargetRef = crossVersion("example.com/v1", "Thing", "t")
	create(t, v)
	for component, start := range map[string]func(*testing.T) *attacked{
		"admission controller": attackableWebhook,
		"recommender": func(t *testing.T) *attacked {
			return attackable(t, "recommender", "--vpa-object-namespace="+ns, "--recommender-name="+ns)
		},
		"updater": func(t *testing.T) *attacked { return attackable(t, "updater", "--vpa-object-namespace="+ns) },
	} {
		t.Run(component, func(t *testing.T) {
			a := start(t)
			hang.Eventually(t, "an honest answer; see "+a.LogFile, func(context.Context) (bool, error) { return true, a.honest() })
			for _, x := range attacks {
				t.Run(x.name, func(t *testing.T) { a.withstands(t, x) })
			}
			if a.ports[0].webhook() {
				attackOwners(t, a, ns)
			}
		})
	}
}

// withstands runs an attack against one port after the other.
func (a *attacked) withstands(t *testing.T, x attack) {
	before := a.logged(t)
	a.during(t, func(t *testing.T) {
		for _, p := range a.ports {
			t.Run(p.name, func(t *testing.T) { x.on(t, a, p) })
			a.serves(t, p)
		}
	})
	if x.log {
		require.Less(t, a.logged(t)-before, int64(150<<10)*int64(len(a.ports)), "a hundred times four requests at most")
	}
}

// logged is how many bytes it has logged.
func (a *attacked) logged(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(a.LogFile)
	require.NoError(t, err)
	return info.Size()
}

// sent sends a body, and reads the answer.
func sent(c *http.Client, url, kind, body string) error {
	resp, err := c.Post(url, kind, strings.NewReader(body))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// attackOwners sends reviews of pods whose owners are looked up.
func attackOwners(t *testing.T, a *attacked, ns string) {
	// Each review left its owner in memory: the UID for good, the name for an hour.
	t.Run("owners with names of megabytes", func(t *testing.T) {
		a.during(t, func(*testing.T) {
			c := a.client()
			defer c.CloseIdleConnections()
			long := strings.Repeat("x", 2<<20)
			for i := range 300 {
				_ = a.ask(c, owned(ns, "apps/v1", "ReplicaSet", "none", fmt.Sprint(i, long))) // whatever it answers
				_ = a.ask(c, owned(ns, "example.com/v1", "Thing", fmt.Sprint(i, long), "1"))
			}
		})
	})
	// Each waited 250 ms in a slot for its owner; 1150 a second took all slots.
	t.Run("owners that do not exist", func(t *testing.T) {
		a.during(t, func(*testing.T) {
			var group sync.WaitGroup
			for worker := range 100 {
				group.Go(func() {
					c := a.client()
					defer c.CloseIdleConnections()
					for i := range 100 {
						_ = a.ask(c, owned(ns, "apps/v1", "ReplicaSet", "none", fmt.Sprint(worker, "-", i)))
					}
				})
			}
			group.Wait()
		})
	})
}
