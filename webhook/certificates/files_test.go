package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"

	"github.com/celvpa/celvpa/conformance/hang"
)

// secret is a folder of certificates as a kubelet mounts it: files are links into a folder that is swapped in one go.
type secret struct {
	dir string
	n   int
}

func newSecret(t *testing.T) *secret {
	s := &secret{dir: t.TempDir()}
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(s.dir, name)))
	}
	return s
}

func (s *secret) path(name string) string { return filepath.Join(s.dir, name) }

func (s *secret) put(t *testing.T, ca, cert, key []byte) {
	t.Helper()
	s.n++
	version := filepath.Join(s.dir, "..v"+string(rune('a'+s.n)))
	require.NoError(t, os.Mkdir(version, 0o755))
	for name, text := range map[string][]byte{"ca.crt": ca, "tls.crt": cert, "tls.key": key} {
		require.NoError(t, os.WriteFile(filepath.Join(version, name), text, 0o600))
	}
	next := filepath.Join(s.dir, "..next")
	require.NoError(t, os.Symlink(filepath.Base(version), next))
	require.NoError(t, os.Rename(next, filepath.Join(s.dir, "..data")))
}

// issue puts a new certificate of a CA.
func (s *secret) issue(t *testing.T, ca *authority, now time.Time) {
	t.Helper()
	cas, cert, key := issued(t, ca, now)
	s.put(t, cas, cert, key)
}

func (s *secret) options(clk *testclock.FakeClock) FileOptions {
	return FileOptions{CA: s.path("ca.crt"), Cert: s.path("tls.crt"), Key: s.path("tls.key"), Reload: true, Hosts: []string{"127.0.0.1"}, Clock: clk, Log: logr.Discard()}
}

// issued is a CA with a certificate of it, in PEM.
func issued(t *testing.T, ca *authority, now time.Time) (cas, cert, key []byte) {
	t.Helper()
	pair, err := ca.issue(now, time.Hour, []string{"127.0.0.1"})
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	return encodeCAs([]*x509.Certificate{ca.cert}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Leaf.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func someCA(t *testing.T, now time.Time) *authority {
	t.Helper()
	ca, err := newAuthority(now, 24*time.Hour, "")
	require.NoError(t, err)
	return ca
}

// looks has the files looked at so often, as the loop does every second.
func looks(s *Source, clk *testclock.FakeClock, times int) {
	for range times {
		clk.Step(pollInterval)
		s.tick()
	}
}

func TestAChangedCertificateOfTheSameCAIsShownAtOnce(t *testing.T) {
	clk, s := testclock.NewFakeClock(newYear), newSecret(t)
	ca := someCA(t, newYear)
	s.issue(t, ca, newYear)
	log := newMemo()
	o := s.options(clk)
	o.Log = log.log()
	f, err := NewFiles(o)
	require.NoError(t, err)
	require.Empty(t, log.written())
	before := shown(t, f)
	looks(f, clk, 3)
	require.True(t, before.Equal(shown(t, f)))

	s.issue(t, ca, clk.Now())
	looks(f, clk, 2)
	require.False(t, before.Equal(shown(t, f)))
	logged := log.written()
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], "New certificate found, reloading")
	require.Len(t, f.Bundle().Needed, 1)
}

// TestAChangedCAIsPublishedBeforeItsCertificateIsShown, with the lines that tools look for (UPSTREAM.md §4.9).
func TestAChangedCAIsPublishedBeforeItsCertificateIsShown(t *testing.T) {
	clk, s := testclock.NewFakeClock(newYear), newSecret(t)
	s.issue(t, someCA(t, newYear), newYear)
	log := newMemo()
	o := s.options(clk)
	o.Log = log.log()
	f, err := NewFiles(o)
	require.NoError(t, err)
	stranger := own(t, clk, nil).Bundle().PEM()
	text, err := os.ReadFile(s.path("ca.crt"))
	require.NoError(t, err)
	started := f.Bundle()
	require.NoError(t, believes(t, f, started.Merge(stranger, clk.Now()), "127.0.0.1", clk.Now()))
	require.Contains(t, string(started.Merge(stranger, clk.Now())), string(stranger), "another replica may show the certificate of before, and is to be believed")
	f.Published(started)
	clk.Step(maxGrace)
	old := f.Bundle().Merge(append(slices.Clone(text), stranger...), clk.Now())
	require.Equal(t, string(text), string(old), "after the grace the bundle is the file, once")
	f.Published(f.Bundle())
	require.Equal(t, append(old, stranger...), f.Bundle().Merge(append(old, stranger...), clk.Now()), "later it only has to contain it")
	require.Empty(t, log.written())

	s.issue(t, someCA(t, clk.Now()), clk.Now())
	looks(f, clk, 2)
	requireChanged(t, f)
	logged := log.written()
	require.Len(t, logged, 2)
	require.Contains(t, logged[0], "New certificate found, reloading")
	require.Contains(t, logged[1], "New client CA found, reloading and patching webhook")
	looks(f, clk, 60)
	require.NoError(t, believes(t, f, old, "127.0.0.1", clk.Now()), "it is not published yet")
	both := f.Bundle()
	require.Len(t, both.Needed, 2)
	f.Published(both)
	logged = log.written()
	require.Len(t, logged, 1)
	require.Contains(t, logged[0], "Successfully patched webhook with new client CA")
	require.NoError(t, believes(t, f, old, "127.0.0.1", clk.Now()), "API servers get a moment to see it")
	looks(f, clk, 10)
	require.Error(t, believes(t, f, old, "127.0.0.1", clk.Now()))
	require.NoError(t, believes(t, f, both.PEM(), "127.0.0.1", clk.Now()))
	require.Len(t, f.Bundle().Needed, 2, "other replicas may show the old one still")
	looks(f, clk, 600)
	after := f.Bundle()
	text, err = os.ReadFile(s.path("ca.crt"))
	require.NoError(t, err)
	require.Equal(t, string(text), string(after.Merge(both.PEM(), clk.Now())))
}

// TestACAThatComesBackIsNeededAgain: an operator reverts a change, in the midst of it and after it.
func TestACAThatComesBackIsNeededAgain(t *testing.T) {
	for name, publish := range map[string]bool{"before the other was shown": false, "after the other was shown": true} {
		t.Run(name, func(t *testing.T) {
			clk, s := testclock.NewFakeClock(newYear), newSecret(t)
			a, b := someCA(t, newYear), someCA(t, newYear)
			s.issue(t, a, newYear)
			f, err := NewFiles(s.options(clk))
			require.NoError(t, err)
			s.issue(t, b, newYear)
			looks(f, clk, 2)
			if publish {
				f.Published(f.Bundle())
				looks(f, clk, 10)
			}
			s.issue(t, a, newYear)
			looks(f, clk, 2)
			f.Published(f.Bundle())
			looks(f, clk, 700)
			f.Published(f.Bundle())
			require.Equal(t, []*x509.Certificate{a.cert}, f.Bundle().Needed)
			require.Empty(t, f.Bundle().Retired)
			require.NoError(t, believes(t, f, encodeCAs([]*x509.Certificate{a.cert}), "127.0.0.1", clk.Now()))
		})
	}
}

// TestFilesThatAreNotWellAreLeft: the last good certificate stays, one line says why, and what is put right is used.
func TestFilesThatAreNotWellAreLeft(t *testing.T) {
	ca := someCA(t, newYear)
	cas, cert, key := issued(t, ca, newYear)
	otherCA, otherCert, otherKey := issued(t, someCA(t, newYear), newYear)
	for name, tt := range map[string]struct {
		spoil  func(t *testing.T, s *secret)
		reason string
	}{
		"half a certificate":             {func(t *testing.T, s *secret) { s.put(t, cas, cert[:100], key) }, "failed to find any PEM data in certificate input"},
		"an empty certificate":           {func(t *testing.T, s *secret) { s.put(t, cas, nil, key) }, "failed to find any PEM data in certificate input"},
		"a key of another certificate":   {func(t *testing.T, s *secret) { s.put(t, cas, cert, otherKey) }, "private key does not match public key"},
		"an empty CA":                    {func(t *testing.T, s *secret) { s.put(t, nil, cert, key) }, "it has no certificate in PEM"},
		"a key for a CA":                 {func(t *testing.T, s *secret) { s.put(t, key, cert, key) }, "among its certificates"},
		"a CA of another certificate":    {func(t *testing.T, s *secret) { s.put(t, otherCA, cert, key) }, "does not fit --client-ca-file"},
		"a certificate of another CA":    {func(t *testing.T, s *secret) { s.put(t, cas, otherCert, otherKey) }, "does not fit --client-ca-file"},
		"no file, while they are copied": {func(t *testing.T, s *secret) { require.NoError(t, os.Remove(s.path("..data"))) }, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			clk, s := testclock.NewFakeClock(newYear), newSecret(t)
			s.put(t, cas, cert, key)
			log := newMemo()
			o := s.options(clk)
			o.Log = log.log()
			f, err := NewFiles(o)
			require.NoError(t, err)
			before := shown(t, f)
			tt.spoil(t, s)
			looks(f, clk, 5)
			require.True(t, before.Equal(shown(t, f)))
			require.Len(t, f.Bundle().Needed, 1)
			logged := log.written()
			require.Len(t, logged, 1)
			require.Contains(t, logged[0], tt.reason)
			require.Contains(t, logged[0], "the last good ones stay")
			s.issue(t, ca, newYear)
			looks(f, clk, 2)
			require.False(t, before.Equal(shown(t, f)))
		})
	}
}

func TestFilesAreReadOnceWithoutReload(t *testing.T) {
	clk, s := testclock.NewFakeClock(newYear), newSecret(t)
	ca := someCA(t, newYear)
	s.issue(t, ca, newYear)
	o := s.options(clk)
	o.Reload = false
	f, err := NewFiles(o)
	require.NoError(t, err)
	before := shown(t, f)
	s.issue(t, ca, newYear)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Start(ctx) }()
	for range 5 {
		hang.Until(t, clk.HasWaiters)
		clk.Step(pollInterval)
	}
	cancel()
	require.NoError(t, <-done)
	require.True(t, before.Equal(shown(t, f)))
}

func TestFilesThatCannotBeUsedStopTheStart(t *testing.T) {
	cas, cert, key := issued(t, someCA(t, newYear), newYear)
	for name, tt := range map[string]struct {
		ca, cert, key []byte
		missing       string
		want          string
	}{
		"no certificate":      {cas, cert, key, "tls.crt", "--tls-cert-file: reading the webhook's certificates: open "},
		"no key":              {cas, cert, key, "tls.key", "--tls-private-key: reading the webhook's certificates: open "},
		"no CA":               {cas, cert, key, "ca.crt", "--client-ca-file: reading the webhook's certificates: open "},
		"a broken key":        {cas, cert, []byte("x"), "", "--tls-private-key "},
		"a broken CA":         {[]byte("x"), cert, key, "", "--client-ca-file "},
		"a CA for a key":      {cas, cert, cas, "", "--tls-private-key "},
		"a folder for a file": {cas, cert, key, "dir", "--tls-private-key: reading"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSecret(t)
			s.put(t, tt.ca, tt.cert, tt.key)
			o := s.options(testclock.NewFakeClock(newYear))
			switch tt.missing {
			case "":
			case "dir":
				o.Key = s.dir
			default:
				require.NoError(t, os.Remove(s.path(tt.missing)))
			}
			_, err := NewFiles(o)
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "or let celvpa make its own certificates: give none of")
		})
	}
	t.Run("the CA is not read where nothing is registered", func(t *testing.T) {
		s := newSecret(t)
		s.put(t, nil, cert, key)
		o := s.options(testclock.NewFakeClock(newYear))
		o.Unpublished = true
		f, err := NewFiles(o)
		require.NoError(t, err)
		require.Empty(t, f.Bundle().Needed)
		_, otherCert, otherKey := issued(t, someCA(t, newYear), newYear)
		before := shown(t, f)
		s.put(t, nil, otherCert, otherKey)
		looks(f, o.Clock.(*testclock.FakeClock), 2)
		require.False(t, before.Equal(shown(t, f)), "and what changes is shown at once")
	})
	t.Run("a certificate that API servers will not trust is reported", func(t *testing.T) {
		s, log := newSecret(t), newMemo()
		s.put(t, cas, cert, key)
		o := s.options(testclock.NewFakeClock(newYear))
		o.Hosts, o.Log = []string{"vpa-webhook.kube-system.svc"}, log.log()
		_, err := NewFiles(o)
		require.NoError(t, err)
		require.Contains(t, log.written()[0], "API servers will not trust the serving certificate")
	})
}

// TestACertificateByAnIntermediateFits, as cert-manager writes it.
func TestACertificateByAnIntermediateFits(t *testing.T) {
	clk, s := testclock.NewFakeClock(newYear), newSecret(t)
	root, between := someCA(t, newYear), someCA(t, newYear)
	template := *between.cert
	template.Raw, template.SubjectKeyId, template.AuthorityKeyId = nil, nil, nil
	template.Subject.CommonName, template.RawSubject = "between", nil
	der, err := x509.CreateCertificate(rand.Reader, &template, root.cert, &between.key.PublicKey, root.key)
	require.NoError(t, err)
	cross, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	between.cert = cross
	_, cert, key := issued(t, between, newYear)
	s.put(t, encodeCAs([]*x509.Certificate{root.cert}), append(cert, encodeCAs([]*x509.Certificate{cross})...), key)
	log := newMemo()
	o := s.options(clk)
	o.Log = log.log()
	f, err := NewFiles(o)
	require.NoError(t, err)
	require.Empty(t, log.written())
	var pair *tls.Certificate
	pair, err = f.GetCertificate(nil)
	require.NoError(t, err)
	require.Len(t, pair.Certificate, 2)
}

// TestKeysAreReadAsKubeletsMountThem: 0644 is what a Secret has unless its volume says otherwise, 0440 and 0640 what it has with an
// fsGroup. None is worth a line in the log: only processes of the container see it.
func TestKeysAreReadAsKubeletsMountThem(t *testing.T) {
	for _, mode := range []fs.FileMode{0o400, 0o440, 0o600, 0o640, 0o644} {
		t.Run(fmt.Sprintf("%04o", mode), func(t *testing.T) {
			clk := testclock.NewFakeClock(time.Now())
			ca, err := newAuthority(clk.Now(), time.Hour, "")
			require.NoError(t, err)
			s := newSecret(t)
			s.issue(t, ca, clk.Now())
			require.NoError(t, os.Chmod(s.path("tls.key"), mode))
			o := s.options(clk)
			var lines []string
			o.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 9})
			f, err := NewFiles(o)
			require.NoError(t, err)
			looks(f, clk, 1)
			require.Empty(t, lines)
			after, err := os.Stat(s.path("tls.key"))
			require.NoError(t, err)
			require.Equal(t, mode, after.Mode(), "it is left as it is")
		})
	}
}

// TestFilesSwappedWhileReadAreNotMixed: the Secret is swapped after the certificate was read and before its CA is. Without --reload-cert
// the mixture stayed in use for good.
func TestFilesSwappedWhileReadAreNotMixed(t *testing.T) {
	for name, swapBefore := range map[string]string{"between certificate and key": "tls.key", "between key and CA": "ca.crt"} {
		t.Run(name, func(t *testing.T) {
			clk, s := testclock.NewFakeClock(newYear), newSecret(t)
			s.issue(t, someCA(t, newYear), newYear)
			log, after := newMemo(), someCA(t, newYear)
			o := s.options(clk)
			o.Log, o.Reload = log.log(), false
			swapped := false
			o.readFile = func(path string) ([]byte, error) {
				if !swapped && filepath.Base(path) == swapBefore {
					swapped = true
					s.issue(t, after, newYear)
				}
				return os.ReadFile(path)
			}
			f, err := NewFiles(o)
			require.NoError(t, err)
			require.True(t, swapped)
			require.Empty(t, log.written())
			require.Equal(t, string(encodeCAs([]*x509.Certificate{after.cert})), string(f.Bundle().PEM()))
			require.NoError(t, believes(t, f, f.Bundle().PEM(), "127.0.0.1", newYear))
		})
	}
}
