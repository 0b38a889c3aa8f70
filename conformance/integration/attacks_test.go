package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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

// mostMemory is the limit, in bytes, that docs/admission.md promises for an admission controller,
// whatever clients send.
const mostMemory = 512 << 20

// attacked is an admission controller that only the test talks to.
type attacked struct {
	*harness.Process
	address string   // of its webhook
	health  string   // address without TLS
	others  []string // addresses with TLS: of metrics and explanations
	tls     *tls.Config
}

func attackable(t *testing.T) *attacked {
	t.Helper()
	folder := t.TempDir()
	cert, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, certPEM, 0o600))
	require.NoError(t, os.WriteFile(key, keyPEM, 0o600))
	a := &attacked{others: make([]string, 2)}
	for _, address := range []*string{&a.address, &a.health, &a.others[0], &a.others[1]} {
		*address, err = harness.FreeAddress()
		require.NoError(t, err)
	}
	_, port, err := net.SplitHostPort(a.address)
	require.NoError(t, err)
	a.Process, err = harness.StartMeasured(filepath.Join(folder, "log"), program, "admission-controller", "--kubeconfig="+kubeconfig, "--address="+a.health, "--port="+port, "--secure-metrics-address="+a.others[0], "--explain-address="+a.others[1],
		"--bind-address=127.0.0.1", "--register-webhook=false", "--client-ca-file="+cert, "--tls-cert-file="+cert, "--tls-private-key="+key, "--status-lease-name=attacked")
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Stop() })
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(certPEM))
	a.tls = &tls.Config{RootCAs: roots}
	hang.Eventually(t, "an answer of the webhook; see "+a.LogFile, func(context.Context) (bool, error) { return true, a.honest() })
	return a
}

// ports are the addresses at which it listens.
func (a *attacked) ports() []string { return append([]string{a.address, a.health}, a.others...) }

// probed requires that a probe is answered.
func (a *attacked) probed(t *testing.T) {
	t.Helper()
	probe, err := (&http.Client{Timeout: patience}).Get("http://" + a.health + "/healthz")
	require.NoError(t, err)
	require.NoError(t, probe.Body.Close())
	require.Equal(t, http.StatusOK, probe.StatusCode)
}

const honestReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"honest","kind":{"version":"v1","kind":"Pod"},
"requestKind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"namespace":"default","name":"p","operation":"CREATE","object":%s}}`

// patience is how long an honest review may take: what once kept others waiting did so for longer.
const patience = 25 * time.Second

// client returns a client with connections of its own.
func (a *attacked) client() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: a.tls.Clone()}}
}

// honest sends a review of an ordinary pod, as an API server does.
func (a *attacked) honest() error {
	c := a.client()
	defer c.CloseIdleConnections()
	return a.ask(c, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}}]}}`)
}

func (a *attacked) ask(c *http.Client, pod string) error {
	resp, err := c.Post("https://"+a.address+"/?timeout=25s", "application/json", strings.NewReader(fmt.Sprintf(honestReview, pod)))
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

// during runs an attack, sends honest reviews meanwhile, and then checks that the process is
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
	require.LessOrEqual(t, len(failed)*10, asked, "at least nine of ten honest reviews are answered; of %d failed %v", asked, failed)
	print, err := harness.FootprintOf(a.Pid())
	require.NoError(t, err)
	t.Logf("%d honest reviews, %d of them failed; RSS %d MiB, at most %d MiB so far", asked, len(failed), print.RSS>>20, print.Peak>>20)
	if harness.DetectsRaces() {
		t.Log("the memory is not judged: detecting races takes several times as much")
		return
	}
	require.Less(t, print.Peak, uint64(mostMemory))
}

// TestAttacks repeats attacks that once exhausted the memory or the disk of an admission
// controller. One process withstands them all, so leftovers of one count for the next.
func TestAttacks(t *testing.T) {
	ns := namespace(t, "it-attacks")
	v := vpa(ns, "custom", vpav1.UpdateModeOff) // so that custom owners in this namespace are looked up
	v.Spec.TargetRef = crossVersion("example.com/v1", "Thing", "t")
	create(t, v)
	a := attackable(t)

	// 150 connections with one byte each took 841 MiB. The listener accepts 1000.
	t.Run("bodies that stop after one byte", func(t *testing.T) {
		a.during(t, func(t *testing.T) {
			for range 900 {
				conn, err := tls.Dial("tcp", a.address, a.tls)
				require.NoError(t, err)
				defer conn.Close()
				_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: 5242880\r\n\r\n{")
				require.NoError(t, err)
			}
			a.holds(t)
		})
	})
	// Over HTTP/2 one connection with 600 bodies that stop took 3.15 GB, and 20,000 streams that were reset at once 4 GB.
	t.Run("HTTP/2", func(t *testing.T) {
		a.during(t, func(t *testing.T) {
			config := a.tls.Clone()
			config.NextProtos = []string{"h2"}
			for range 600 {
				_, err := tls.Dial("tcp", a.address, config)
				require.ErrorContains(t, err, "no application protocol")
			}
		})
	})
	// 4.5 MB took up to 1.8 GB.
	t.Run("small JSON that decodes to much memory", func(t *testing.T) {
		pods := []string{
			`{"spec":{"containers":[` + strings.TrimSuffix(strings.Repeat(`{},`, 1_500_000), ",") + `]}}`,
			`{"spec":{"containers":[{"resources":{"requests":{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, 700_000), ",") + `}}}]}}`,
			`{"metadata":{"labels":` + strings.Repeat("[", 2_000_000) + strings.Repeat("]", 2_000_000) + `}}`,
		}
		a.during(t, func(t *testing.T) {
			c := a.client()
			defer c.CloseIdleConnections()
			var group sync.WaitGroup
			for _, pod := range pods {
				for range 8 {
					group.Go(func() { _ = a.ask(c, pod) }) // whatever it answers
				}
			}
			group.Wait()
		})
	})
	// One request wrote up to 60 kB, 1.5 MB and 400 kB.
	t.Run("long texts for the log", func(t *testing.T) {
		size := func() int64 {
			info, err := os.Stat(a.LogFile)
			require.NoError(t, err)
			return info.Size()
		}
		before := size()
		a.during(t, func(t *testing.T) {
			c := a.client()
			defer c.CloseIdleConnections()
			for range 100 {
				for kind, body := range map[string]string{
					strings.Repeat("x", 10<<10): "{}",
					"application/json":          `{"apiVersion":"` + strings.Repeat("v", 1<<20) + `"}`,
				} {
					resp, err := c.Post("https://"+a.address, kind, strings.NewReader(body))
					require.NoError(t, err)
					_, _ = io.Copy(io.Discard, resp.Body)
					require.NoError(t, resp.Body.Close())
				}
				require.NoError(t, a.ask(c, `{"metadata":{"name":"`+strings.Repeat("n", 200<<10)+`"},"spec":{"containers":7}}`))
			}
		})
		require.Less(t, size()-before, int64(150<<10), "100 times three requests")
	})
	// Each review left its owner in memory: the UID for good, the name for an hour.
	t.Run("owners with names of megabytes", func(t *testing.T) {
		a.during(t, func(t *testing.T) {
			c := a.client()
			defer c.CloseIdleConnections()
			long := strings.Repeat("x", 2<<20)
			for i := range 300 {
				_ = a.ask(c, owned(ns, "apps/v1", "ReplicaSet", "none", fmt.Sprint(i, long))) // whatever it answers
				_ = a.ask(c, owned(ns, "example.com/v1", "Thing", fmt.Sprint(i, long), "1"))
			}
		})
	})
	// They kept all others waiting for 30 seconds.
	t.Run("connections that send nothing, to every port", func(t *testing.T) {
		a.during(t, func(t *testing.T) {
			for _, address := range a.ports() {
				for range 1500 {
					conn, err := net.Dial("tcp", address)
					require.NoError(t, err)
					defer conn.Close()
				}
				a.probed(t)
			}
			a.holds(t)
		})
	})
	// 600 connections with long headers to the port of metrics took 493 MiB, 1500 took 1.95 GB, and probes were not answered.
	t.Run("headers without end, on every port", func(t *testing.T) {
		a.during(t, func(t *testing.T) {
			for _, header := range []string{"X-Long: " + strings.Repeat("a", 1<<20), strings.Repeat("a:\r\n", 200<<10)} {
				for _, address := range a.ports() {
					for range 600 {
						conn, err := net.Dial("tcp", address)
						require.NoError(t, err)
						defer conn.Close()
						if address != a.health {
							conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
						}
						_ = conn.SetDeadline(time.Now().Add(time.Second))
						_, _ = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n"+header) // it may be cut off
					}
					a.probed(t)
				}
			}
		})
	})
	// Each waited 250 ms in a slot for its owner; 1150 a second took all slots.
	t.Run("owners that do not exist", func(t *testing.T) {
		a.during(t, func(t *testing.T) {
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

// owned is a pod with an owner.
func owned(ns, apiVersion, kind, name, uid string) string {
	return fmt.Sprintf(`{"metadata":{"name":"p","namespace":%q,"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]},"spec":{"containers":[{"name":"app"}]}}`,
		ns, apiVersion, kind, name, uid)
}

// holds returns after honest reviews have been answered during the attack for as long as a request
// may take to arrive.
func (a *attacked) holds(t *testing.T) {
	end := time.Now().Add(2 * time.Second)
	for time.Now().Before(end) {
		if err := a.honest(); err != nil {
			t.Logf("an honest review beside the attack: %v", err)
		}
	}
}
