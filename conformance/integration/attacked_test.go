package integration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
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
)

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
