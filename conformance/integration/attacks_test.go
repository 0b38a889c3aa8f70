package integration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/celvpa/celvpa/conformance/hang"
	"github.com/celvpa/celvpa/conformance/harness"
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

// mostMemory is the limit, in bytes, that docs/security.md promises for each component, whatever clients send.
const mostMemory = 512 << 20

// attacked is a component that only the test talks to.
type attacked struct {
	*harness.Process
	ports  []port // the webhook's first, if it has one
	health string // address of its probes
	tls    *tls.Config
	honest func() error // sends what an honest client would
}

// port is where a component listens.
type port struct {
	name, address string // name is a flag, or "webhook"
}

func (p port) webhook() bool { return p.name == "webhook" }

// plain reports whether it serves without TLS.
func (p port) plain() bool { return p.name == "--address" }

// times is how often an attack on a port repeats what takes n times for a webhook: others accept a tenth of the connections at most.
func (p port) times(n int) int {
	if p.webhook() {
		return n
	}
	return n / 3
}

// dial opens a connection, or returns nil where the port refuses it.
func (p port) dial(config *tls.Config) net.Conn {
	conn, err := net.DialTimeout("tcp", p.address, patience)
	if err != nil {
		return nil
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if p.plain() {
		return conn
	}
	secure := tls.Client(conn, config)
	if secure.Handshake() != nil {
		_ = conn.Close()
		return nil
	}
	return secure
}

func (p port) url() string {
	switch {
	case p.webhook():
		return "https://" + p.address + "/"
	case p.plain():
		return "http://" + p.address + "/metrics"
	}
	return "https://" + p.address + "/metrics"
}

// attackable starts a component with all its ports; the first is that of health.
func attackable(t *testing.T, component string, flags ...string) *attacked {
	t.Helper()
	a := &attacked{tls: &tls.Config{InsecureSkipVerify: true}}
	args := append([]string{component, "--kubeconfig=" + kubeconfig}, flags...)
	for _, flag := range []string{"--address", "--secure-metrics-address", "--explain-address"} {
		address, err := harness.FreeAddress()
		require.NoError(t, err)
		a.ports = append(a.ports, port{flag, address})
		args = append(args, flag+"="+address)
	}
	a.health, a.honest = a.ports[0].address, a.probe
	var err error
	a.Process, err = harness.StartMeasured(filepath.Join(t.TempDir(), "log"), program, args...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Stop() })
	return a
}

// attackableWebhook starts an admission controller.
func attackableWebhook(t *testing.T) *attacked {
	t.Helper()
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, certPEM, 0o600))
	require.NoError(t, os.WriteFile(key, keyPEM, 0o600))
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	_, number, err := net.SplitHostPort(address)
	require.NoError(t, err)
	a := attackable(t, "admission-controller", "--port="+number, "--bind-address=127.0.0.1", "--register-webhook=false",
		"--client-ca-file="+cert, "--tls-cert-file="+cert, "--tls-private-key="+key, "--status-lease-name=attacked")
	a.ports = append([]port{{"webhook", address}}, a.ports...)
	a.honest = a.review
	return a
}

// probe asks for the component's health, as a kubelet does.
func (a *attacked) probe() error {
	resp, err := (&http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + a.health + "/healthz")
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// serves requires that a port answers, and that of probes as well. One that is full may close a connection whose request has not
// come yet.
func (a *attacked) serves(t *testing.T, p port) {
	t.Helper()
	c := a.client()
	defer c.CloseIdleConnections()
	hang.Eventually(t, "an answer of "+p.name+" and a probe", func(context.Context) (bool, error) {
		resp, err := c.Get(p.url())
		if err != nil {
			return false, err
		}
		return true, errors.Join(resp.Body.Close(), a.probe())
	})
}

const honestReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"honest","kind":{"version":"v1","kind":"Pod"},
"requestKind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"namespace":"default","name":"p","operation":"CREATE","object":%s}}`

// patience is how long an honest request may take: what once kept others waiting did so for longer.
const patience = 25 * time.Second

// client returns a client with connections of its own.
func (a *attacked) client() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: a.tls.Clone()}}
}

// review sends a review of an ordinary pod, as an API server does.
func (a *attacked) review() error {
	c := a.client()
	defer c.CloseIdleConnections()
	return a.ask(c, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]}}`)
}

func (a *attacked) ask(c *http.Client, pod string) error {
	resp, err := c.Post(a.ports[0].url()+"?timeout=25s", "application/json", strings.NewReader(fmt.Sprintf(honestReview, pod)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Response == nil || answer.Response.UID != "honest" || !answer.Response.Allowed {
		return fmt.Errorf("the answer is %+v", answer.Response)
	}
	return nil
}

// during runs an attack, sends honest requests meanwhile, and then checks that the process is
// healthy.
func (a *attacked) during(t *testing.T, attack func(t *testing.T)) {
	t.Helper()
	over := make(chan struct{})
	asked, failed := 0, []error{}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			asked++
			if err := a.honest(); err != nil {
				failed = append(failed, err)
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	attack(t)
	close(over)
	group.Wait()
	require.NoError(t, a.Alive())
	require.LessOrEqual(t, len(failed)*10, asked, "at least nine of ten honest requests are answered; of %d failed %v", asked, failed)
	print, err := harness.FootprintOf(a.Pid())
	require.NoError(t, err)
	t.Logf("%d honest requests, %d of them failed; RSS %d MiB, at most %d MiB so far", asked, len(failed), print.RSS>>20, print.Peak>>20)
	if harness.DetectsRaces() {
		t.Log("the memory is not judged: detecting races takes several times as much")
		return
	}
	require.Less(t, print.Peak, uint64(mostMemory))
}

// owned is a pod with an owner.
func owned(ns, apiVersion, kind, name, uid string) string {
	return fmt.Sprintf(`{"metadata":{"name":"p","namespace":%q,"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]},"spec":{"containers":[{"name":"app"}]}}`,
		ns, apiVersion, kind, name, uid)
}

// holds returns after honest requests have been answered during an attack on the webhook for as long as a request may take to
// arrive. At other ports, requests that stop end with their answer.
func (a *attacked) holds(t *testing.T, p port) {
	for end := time.Now().Add(2 * time.Second); p.webhook() && time.Now().Before(end); {
		if err := a.honest(); err != nil {
			t.Logf("an honest request beside the attack: %v", err)
		}
	}
	a.serves(t, p)
}
