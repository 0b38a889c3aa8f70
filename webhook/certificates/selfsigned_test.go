package certificates

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// memo is a log that can be read.
type memo struct{ lines chan string }

func newMemo() *memo { return &memo{lines: make(chan string, 1000)} }

func (m *memo) log() logr.Logger {
	return funcr.New(func(_, args string) { m.lines <- args }, funcr.Options{})
}

// written empties the log.
func (m *memo) written() (out []string) {
	for {
		select {
		case l := <-m.lines:
			out = append(out, l)
		default:
			return out
		}
	}
}

// shown is the certificate that a server shows now.
func shown(t *testing.T, c *Source) *x509.Certificate {
	t.Helper()
	pair, err := c.GetCertificate(nil)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	return leaf
}

// believes returns nil if an API server with a caBundle would call a host.
func believes(t *testing.T, c *Source, caBundle []byte, host string, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(caBundle))
	_, err := shown(t, c).Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
	return err
}

func own(t *testing.T, clk *testclock.FakeClock, change func(*SelfSignedOptions)) *Source {
	t.Helper()
	o := SelfSignedOptions{Hosts: []string{"127.0.0.1", "vpa-webhook.kube-system.svc"}, Clock: clk, Log: logr.Discard()}
	if change != nil {
		change(&o)
	}
	s, err := NewSelfSigned(o)
	require.NoError(t, err)
	return s
}

func TestTheServingCertificateIsTrustedForItsHostsAndRenewed(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, nil)
	ca := certs.Bundle().PEM()
	require.NoError(t, believes(t, certs, ca, "127.0.0.1", clk.Now()))
	require.NoError(t, believes(t, certs, ca, "vpa-webhook.kube-system.svc", clk.Now()))
	require.Error(t, believes(t, certs, ca, "elsewhere", clk.Now()))
	first := shown(t, certs)
	clk.Step(DefaultServingLifetime*2/3 - time.Second)
	require.True(t, first.Equal(shown(t, certs)))
	clk.Step(time.Second)
	renewed := shown(t, certs)
	require.False(t, first.Equal(renewed))
	clk.Step(DefaultServingLifetime / 2)
	require.NoError(t, believes(t, certs, ca, "127.0.0.1", clk.Now()), "still valid long after the first would have ended")
	require.Equal(t, ca, certs.Bundle().PEM(), "the CA is the same")
}

func TestALongHostNameIsNoCommonName(t *testing.T) {
	host := "vpa-webhook.a-namespace-whose-name-is-as-long-as-names-of-namespaces-may-be.svc"
	certs := own(t, testclock.NewFakeClock(newYear), func(o *SelfSignedOptions) { o.Hosts = []string{host} })
	require.NoError(t, believes(t, certs, certs.Bundle().PEM(), host, newYear))
}

// TestANewCAIsPublishedBeforeItSigns, and the old one stays until nobody can show certificates of it any more.
func TestANewCAIsPublishedBeforeItSigns(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, nil)
	certs.Published(certs.Bundle())
	old := certs.Bundle().PEM()
	clk.Step(DefaultCALifetime/2 - time.Second)
	require.NoError(t, believes(t, certs, old, "127.0.0.1", clk.Now()))
	require.Len(t, certs.Bundle().Needed, 1)
	clk.Step(time.Second)
	leaf := shown(t, certs)
	requireChanged(t, certs)
	both := certs.Bundle()
	require.Len(t, both.Needed, 2, "a new CA is to be published beside the old one")
	require.NoError(t, believes(t, certs, old, "127.0.0.1", clk.Now()))
	clk.Step(24 * time.Hour)
	require.NoError(t, believes(t, certs, old, "127.0.0.1", clk.Now()), "nothing of the new CA is shown while it is not published")

	certs.Published(both)
	clk.Step(maxSettle - time.Second)
	require.NoError(t, believes(t, certs, old, "127.0.0.1", clk.Now()), "API servers get a moment to see it")
	clk.Step(time.Second)
	require.False(t, leaf.Equal(shown(t, certs)))
	require.Error(t, believes(t, certs, old, "127.0.0.1", clk.Now()))
	require.NoError(t, believes(t, certs, both.PEM(), "127.0.0.1", clk.Now()))
	clk.Step(maxGrace - time.Second)
	shown(t, certs)
	require.Len(t, certs.Bundle().Needed, 2, "the old CA stays for a while")
	requireChanged(t, certs)
	clk.Step(time.Second)
	shown(t, certs)
	requireChanged(t, certs)
	after := certs.Bundle()
	require.Len(t, after.Needed, 1)
	require.Len(t, after.Retired, 1)
	require.Equal(t, after.PEM(), after.Merge(both.PEM(), clk.Now()))
	require.NoError(t, believes(t, certs, after.PEM(), "127.0.0.1", clk.Now()))
	certs.Published(after)
	require.Empty(t, certs.Bundle().Retired)
}

func requireChanged(t *testing.T, c *Source) {
	t.Helper()
	select {
	case <-c.Changed():
	default:
		require.Fail(t, "the registrar is not notified")
	}
}

// TestABundleFromBeforeDoesNotCountAsPublished: the registrar was still writing it when the CA changed.
func TestABundleFromBeforeDoesNotCountAsPublished(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, nil)
	before := certs.Bundle()
	clk.Step(DefaultCALifetime / 2)
	shown(t, certs)
	certs.Published(before)
	clk.Step(time.Hour)
	require.NoError(t, believes(t, certs, before.PEM(), "127.0.0.1", clk.Now()))
}

func TestWithoutARegistrationANewCAIsUsedAtOnce(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, func(o *SelfSignedOptions) { o.Unpublished = true })
	old := certs.Bundle().PEM()
	clk.Step(DefaultCALifetime / 2)
	require.Error(t, believes(t, certs, old, "127.0.0.1", clk.Now()))
	require.NoError(t, believes(t, certs, certs.Bundle().PEM(), "127.0.0.1", clk.Now()))
}

// TestNothingOutlivesACA, and a CA that could not be published in all its life is followed all the same.
func TestNothingOutlivesACA(t *testing.T) {
	clk := testclock.NewFakeClock(newYear)
	certs := own(t, clk, func(o *SelfSignedOptions) { o.CALifetime, o.Lifetime = time.Hour, 24*time.Hour })
	for range 600 {
		leaf := shown(t, certs)
		require.False(t, leaf.NotAfter.After(certs.serving.cas[0].NotAfter))
		require.False(t, clk.Now().After(leaf.NotAfter), "what is shown has not expired at %s", clk.Now())
		clk.Step(17 * time.Second)
	}
}

// TestCertificatesOfAClockThatWasAheadAreReplaced: they are not valid yet, and would not be due for as
// long as the clock was ahead.
func TestCertificatesOfAClockThatWasAheadAreReplaced(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"an hour": time.Hour, "a day": 24 * time.Hour, "five days": 5 * 24 * time.Hour, "a year": 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			clk := testclock.NewFakeClock(newYear)
			s := own(t, clk, nil)
			turns := func() {
				for range 3 { // of the server and of the registrar
					s.Published(s.Bundle())
					shown(t, s)
					clk.Step(maxSettle)
				}
			}
			turns()
			require.NoError(t, believes(t, s, s.Bundle().PEM(), "127.0.0.1", clk.Now()))
			clk.Step(ahead)
			turns()
			require.NoError(t, believes(t, s, s.Bundle().PEM(), "127.0.0.1", clk.Now()))
			clk.SetTime(clk.Now().Add(-ahead))
			turns()
			require.NoError(t, believes(t, s, s.Bundle().PEM(), "127.0.0.1", clk.Now()))
		})
	}
}
