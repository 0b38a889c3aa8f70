package certificates

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

// Default paths of the certificate files (UPSTREAM.md §4.1).
const (
	DefaultCAFile   = "/etc/tls-certs/caCert.pem"
	DefaultCertFile = "/etc/tls-certs/serverCert.pem"
	DefaultKeyFile  = "/etc/tls-certs/serverKey.pem"
)

// pollInterval is how often the files are read. They are small.
const pollInterval = time.Second

// FileOptions configure Files.
type FileOptions struct {
	CA, Cert, Key string // paths of PEM files: --client-ca-file, --tls-cert-file, --tls-private-key
	Reload        bool   // --reload-cert
	// Unpublished means that nobody writes the registration: the CA is not read, and changed certificates are served at once.
	Unpublished bool
	Hosts       []string // names by which API servers call the server
	Clock       clock.Clock
	Log         logr.Logger

	readFile func(string) ([]byte, error) // a test's; nil = os.ReadFile
}

// Files serves certificates from files that somebody else renews: an operator, or cert-manager through a Secret.
//
// It polls the files instead of watching them, so it does not matter how they are replaced, and takes what two successive
// readings found alike: files that are swapped or written in between are never mixed. It logs a half-written or unreadable file
// once and keeps the last good certificate.
//
// controller-runtime's certwatcher does not fit here. It serves a new certificate as soon as it reads one, while the invariant of
// this package needs the CA to be published first; it reads no CA; and it does not notice a changed intermediate certificate.
type Files struct {
	rotation
	options FileOptions
	log     logr.Logger

	used    content   // served, or waiting for its CA
	seen    content   // at the last reading
	lastLog string    // the error that was logged last
	exactAt time.Time // from when on the registration must have exactly the CAs of the files, once
	settled bool      // it had
	expired bool      // the log says that the serving certificate has expired
}

// content is one reading of the files.
type content struct{ ca, cert, key []byte }

func (c content) equal(d content) bool {
	return bytes.Equal(c.ca, d.ca) && bytes.Equal(c.cert, d.cert) && bytes.Equal(c.key, d.key)
}

// NewFiles reads certificates. An error names the flag of the file and says how to fix it.
func NewFiles(o FileOptions) (*Files, error) {
	if o.readFile == nil {
		o.readFile = os.ReadFile
	}
	f := &Files{options: o, log: o.Log}
	f.rotation.clock, f.unpublished = o.Clock, o.Unpublished
	f.settle, f.grace = maxSettle, maxGrace
	f.exactAt = o.Clock.Now().Add(f.grace)
	found, err := f.readSettled()
	if err != nil {
		return nil, err
	}
	id, err := f.identity(found)
	if err != nil {
		return nil, err
	}
	if err := f.trusted(id, o.Hosts...); err != nil {
		f.log.Error(err, "API servers will not trust the serving certificate, so new pods do not get their recommendations")
	}
	f.used, f.seen = found, found
	f.start(id)
	f.logExpired()
	return f, nil
}

// GetCertificate implements Source.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.Lock()
	defer f.Unlock()
	f.advance()
	return f.serving.pair, nil
}

// Bundle implements Source. CAs of other replicas stay: they do not all see a changed file at the same time, and one that starts
// may see it first. Once, after the grace period, it removes the CAs that the files do not have.
func (f *Files) Bundle() Bundle {
	f.Lock()
	defer f.Unlock()
	b := f.bundle()
	if f.settled || f.rotation.clock.Now().Before(f.exactAt) {
		b.Keeps = func(*x509.Certificate) bool { return true }
	}
	return b
}

// Changed implements Source.
func (f *Files) Changed() <-chan struct{} { return f.changed }

// Published implements Source.
func (f *Files) Published(b Bundle) {
	f.Lock()
	defer f.Unlock()
	f.settled = f.settled || b.Keeps == nil
	before := f.published
	f.confirm(b)
	if f.next != nil && before.IsZero() && !f.published.IsZero() {
		f.log.Info("Successfully patched webhook with new client CA") // tools match this text (UPSTREAM.md §4.9)
	}
}

// NeedLeaderElection implements Source.
func (f *Files) NeedLeaderElection() bool { return false }

// Start implements Source.
func (f *Files) Start(ctx context.Context) error {
	f.watch(ctx, pollInterval, func() {
		if f.options.Reload {
			f.poll()
		}
		f.advance()
		f.logExpired()
	})
	return nil
}

// logExpired logs once that the serving certificate, or its CA, has expired.
func (f *Files) logExpired() {
	expired := f.serving.expired(f.rotation.clock.Now())
	if expired && !f.expired {
		file := f.options.Cert
		if until := f.serving.until(); until.Before(f.serving.pair.Leaf.NotAfter) {
			file = f.options.CA
		}
		f.log.Error(nil, "the serving certificate or its CA has expired, so API servers do not call the webhook and apply its failurePolicy; replace the file and, without --reload-cert, restart",
			"file", file, "until", f.serving.until())
	}
	f.expired = expired
}

// poll reads the files and uses what changed, once two readings agree.
func (f *Files) poll() {
	found, err := f.read()
	if err != nil {
		f.logFault(err)
		return
	}
	again := found.equal(f.seen)
	f.seen = found
	if !again { // somebody may still be writing
		return
	}
	if found.equal(f.used) {
		f.lastLog = ""
		return
	}
	id, err := f.identity(found)
	if err == nil {
		err = f.trusted(id)
	}
	if err != nil {
		f.logFault(err)
		return
	}
	f.lastLog = ""
	if !bytes.Equal(found.cert, f.used.cert) || !bytes.Equal(found.key, f.used.key) {
		f.log.Info("New certificate found, reloading", "until", id.pair.Leaf.NotAfter)
	}
	if !bytes.Equal(found.ca, f.used.ca) {
		f.log.Info("New client CA found, reloading and patching webhook")
	}
	f.used = found
	f.offer(id)
}

func (f *Files) logFault(err error) {
	if text := err.Error(); text != f.lastLog {
		f.lastLog = text
		f.log.Error(err, "cannot use the changed certificates; the last good ones stay")
	}
}

// wayOut ends errors about files.
const wayOut = "; give PEM files, or let celvpa make its own certificates: give none of --tls-cert-file, --tls-private-key and --client-ca-file, and leave no files at their defaults"

// readSettled reads until two successive readings agree.
func (f *Files) readSettled() (content, error) {
	last, err := f.read()
	for range maxReadings {
		if err != nil {
			return content{}, err
		}
		before := last
		if last, err = f.read(); err == nil && last.equal(before) {
			return last, nil
		}
	}
	return content{}, fmt.Errorf("--tls-cert-file, --tls-private-key and --client-ca-file change with every reading%s", wayOut)
}

// maxReadings bounds readSettled.
const maxReadings = 100

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
		text, err := f.options.readFile(one.path)
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

// trusted returns an error if API servers that know the CAs would refuse the certificate for one of the hosts. It ignores the dates.
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
	for _, host := range append([]string{""}, hosts...) { // "" checks the chain only
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: between, CurrentTime: at}); err != nil {
			return fmt.Errorf("--tls-cert-file %s does not fit --client-ca-file %s: %w", f.options.Cert, f.options.CA, err)
		}
	}
	return nil
}
