package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Where certificates are looked for unless flags tell of other places (UPSTREAM.md §4.1).
const (
	DefaultCAFile   = "/etc/tls-certs/caCert.pem"
	DefaultCertFile = "/etc/tls-certs/serverCert.pem"
	DefaultKeyFile  = "/etc/tls-certs/serverKey.pem"
)

// lookInterval is how often files are read to see whether they changed. They are small.
const lookInterval = time.Second

// FileOptions are where certificates come from.
type FileOptions struct {
	CA, Cert, Key string // paths of PEM files: --client-ca-file, --tls-cert-file, --tls-private-key
	Reload        bool   // --reload-cert
	// Unpublished tells that nobody writes the registration: the CA is not read, and what changes is shown at once.
	Unpublished bool
	Hosts       []string // by which API servers know the server
	Clock       clock.Clock
	Log         logr.Logger
}

// Files are certificates from files that somebody else renews: an operator, or cert-manager through a Secret. They are looked at
// again and again, not watched, so it does not matter how they are replaced. What is used is what was the same at two looks and
// fits together; what is half written or cannot be read is logged once, and the last that was good stays.
type Files struct {
	rotation
	options FileOptions
	log     logr.Logger

	used    content   // what is shown or waits for its CA
	seen    content   // at the last look
	faulty  string    // what was logged last
	exact   time.Time // from when on the registration is to have exactly the CAs of the files, once
	settled bool      // it had
	expired bool      // the log has it that what is shown has expired
}

// content is that of the files.
type content struct{ ca, cert, key []byte }

func (c content) equal(d content) bool {
	return bytes.Equal(c.ca, d.ca) && bytes.Equal(c.cert, d.cert) && bytes.Equal(c.key, d.key)
}

// NewFiles reads certificates. An error names the flag of the file, and the way out.
func NewFiles(o FileOptions) (*Files, error) {
	f := &Files{options: o, log: o.Log}
	f.rotation.clock, f.alone = o.Clock, o.Unpublished
	f.settle, f.grace = longestSettle, longestGrace
	f.exact = o.Clock.Now().Add(f.grace)
	found, err := f.read()
	if err != nil {
		return nil, err
	}
	id, err := f.identity(found)
	if err != nil {
		return nil, err
	}
	if err := f.trusted(id, o.Hosts...); err != nil {
		f.log.Error(err, "API servers will not trust the serving certificate, and pods are created without their recommendations")
	}
	f.used, f.seen = found, found
	f.begin(id)
	f.tellExpired()
	return f, nil
}

// GetCertificate implements Certificates.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.Lock()
	defer f.Unlock()
	f.advance()
	return f.serving.pair, nil
}

// Bundle implements Certificates. The CAs of others stay: replicas do not see a changed file at the same time, and one that starts may
// be the first to see it. Once only, when all have had the time, those go that the files do not have.
func (f *Files) Bundle() Bundle {
	f.Lock()
	defer f.Unlock()
	b := f.bundle()
	if f.settled || f.rotation.clock.Now().Before(f.exact) {
		b.Keeps = func(*x509.Certificate) bool { return true }
	}
	return b
}

// Changed implements Certificates.
func (f *Files) Changed() <-chan struct{} { return f.changed }

// Published implements Certificates.
func (f *Files) Published(b Bundle) {
	f.Lock()
	defer f.Unlock()
	f.settled = f.settled || b.Keeps == nil
	before := f.published
	f.confirm(b)
	if f.next != nil && before.IsZero() && !f.published.IsZero() {
		f.log.Info("Successfully patched webhook with new client CA") // tools look for these words (UPSTREAM.md §4.9)
	}
}

// NeedLeaderElection implements Certificates.
func (f *Files) NeedLeaderElection() bool { return false }

// Start implements Certificates.
func (f *Files) Start(ctx context.Context) error {
	f.watch(ctx, lookInterval, func() {
		if f.options.Reload {
			f.look()
		}
		f.advance()
		f.tellExpired()
	})
	return nil // stopped
}

// tellExpired logs once that the certificate in use has expired.
func (f *Files) tellExpired() {
	expired := f.serving.expired(f.rotation.clock.Now())
	if expired && !f.expired {
		f.log.Error(nil, "the serving certificate has expired: API servers no longer call the webhook, and do as failurePolicy says; replace the file and, without --reload-cert, restart",
			"file", f.options.Cert, "until", f.serving.pair.Leaf.NotAfter)
	}
	f.expired = expired
}

// look reads the files and uses what has changed.
func (f *Files) look() {
	found, err := f.read()
	if err != nil {
		f.tellFault(err)
		return
	}
	still := found.equal(f.seen)
	f.seen = found
	if !still { // it may still be written to
		return
	}
	if found.equal(f.used) {
		f.faulty = ""
		return
	}
	id, err := f.identity(found)
	if err == nil {
		err = f.trusted(id)
	}
	if err != nil {
		f.tellFault(err)
		return
	}
	f.faulty = ""
	if !bytes.Equal(found.cert, f.used.cert) || !bytes.Equal(found.key, f.used.key) {
		f.log.Info("New certificate found, reloading", "until", id.pair.Leaf.NotAfter)
	}
	if !bytes.Equal(found.ca, f.used.ca) {
		f.log.Info("New client CA found, reloading and patching webhook")
	}
	f.used = found
	f.offer(id)
}

func (f *Files) tellFault(err error) {
	if text := err.Error(); text != f.faulty {
		f.faulty = text
		f.log.Error(err, "changed certificates are not used; the last good ones stay")
	}
}

// wayOut is what else one can do.
const wayOut = "; give files in PEM, or let celvpa make its own certificates by giving none of --tls-cert-file, --tls-private-key and --client-ca-file and having no files at their default places"

func (f *Files) read() (content, error) {
	var out content
	for _, one := range []struct {
		flag, path string
		into       *[]byte
	}{
		{"--tls-cert-file", f.options.Cert, &out.cert}, {"--tls-private-key", f.options.Key, &out.key}, {"--client-ca-file", f.options.CA, &out.ca},
	} {
		if one.into == &out.ca && f.options.Unpublished {
			continue
		}
		text, err := os.ReadFile(one.path)
		if err != nil {
			return out, fmt.Errorf("%s: reading the webhook's certificates: %w%s", one.flag, err, wayOut)
		}
		*one.into = text
	}
	return out, nil
}

func (f *Files) identity(c content) (identity, error) {
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return identity{}, fmt.Errorf("--tls-cert-file %s and --tls-private-key %s: %w%s", f.options.Cert, f.options.Key, err, wayOut)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return identity{}, fmt.Errorf("--tls-cert-file %s: %w%s", f.options.Cert, err, wayOut)
		}
	}
	id := identity{pair: &pair}
	if f.options.Unpublished {
		return id, nil
	}
	if id.cas, err = parseCAs(c.ca); err != nil {
		return identity{}, fmt.Errorf("--client-ca-file %s: %w%s", f.options.CA, err, wayOut)
	}
	return id, nil
}

// trusted tells whether API servers that know the CAs will take the certificate for hosts, unless it has expired or is of the future.
func (f *Files) trusted(id identity, hosts ...string) error {
	if f.options.Unpublished {
		return nil
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range id.cas {
		roots.AddCert(c)
	}
	for _, der := range id.pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	leaf, at := id.pair.Leaf, f.rotation.clock.Now()
	if at.Before(leaf.NotBefore) {
		at = leaf.NotBefore
	}
	if at.After(leaf.NotAfter) {
		at = leaf.NotAfter
	}
	for _, host := range append([]string{""}, hosts...) { // the empty one is not looked at
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: between, CurrentTime: at}); err != nil {
			return fmt.Errorf("--tls-cert-file %s does not fit --client-ca-file %s: %w", f.options.Cert, f.options.CA, err)
		}
	}
	return nil
}
