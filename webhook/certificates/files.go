package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
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

// FileOptions configure NewFiles.
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

// files are certificates that somebody else renews: an operator, or cert-manager through a Secret.
//
// They are polled instead of watched, so it does not matter how they are replaced. Files that do not fit together, because they
// are half written or were swapped between two readings, are logged once, and the last good certificate stays.
//
// controller-runtime's certwatcher does not fit here. It serves a new certificate as soon as it reads one, while the invariant of
// this package needs the CA to be published first, and it reads no CA.
type files struct {
	FileOptions
	*Source
	read    time.Time // when the files were read last
	used    content   // served, or waiting for its CA
	lastLog string    // the error that was logged last
	expired bool      // the log says that the serving certificate has expired
}

// content is one reading of the files.
type content struct{ ca, cert, key string }

// NewFiles reads certificates. An error names the flag of the file and says how to fix it. CAs of other replicas stay in the
// registration, which do not all see a changed file at the same time. Once, after the grace period, the CAs that the files do not
// have are removed.
func NewFiles(o FileOptions) (*Source, error) {
	if o.readFile == nil {
		o.readFile = os.ReadFile
	}
	f := &files{FileOptions: o, Source: &Source{clock: o.Clock, log: o.Log, settle: maxSettle, grace: maxGrace, interval: pollInterval, unpublished: o.Unpublished, measured: true,
		keeps: func(*x509.Certificate) bool { return true }, exactAt: o.Clock.Now().Add(maxGrace), changed: make(chan struct{}, 1)}}
	err := f.load()
	if err != nil || f.trusted(f.serving) != nil { // they may have been swapped between two readings
		err = f.load()
	}
	if err != nil {
		return nil, err
	}
	if err := f.trusted(f.serving, o.Hosts...); err != nil {
		f.log.Error(err, "API servers will not trust the serving certificate, so new pods do not get their recommendations")
	}
	f.Source.renew = f.renew
	f.logExpired(o.Clock.Now())
	return f.Source, nil
}

// load reads what is served from the start.
func (f *files) load() (err error) {
	if f.used, err = f.readAll(); err == nil {
		f.serving, err = f.parse(f.used)
	}
	return err
}

func (f *files) renew(now time.Time) {
	if f.Reload && now.Sub(f.read) >= pollInterval {
		f.read = now
		if err := f.poll(now); err == nil {
			f.lastLog = ""
		} else if text := err.Error(); text != f.lastLog {
			f.lastLog = text
			f.log.Error(err, "cannot use the changed certificates; the last good ones stay")
		}
	}
	f.logExpired(now)
}

// poll reads the files and offers what changed.
func (f *files) poll(now time.Time) error {
	found, err := f.readAll()
	if err != nil || found == f.used {
		return err
	}
	id, err := f.parse(found)
	if err == nil {
		err = f.trusted(id)
	}
	if err != nil {
		return err
	}
	if found.cert != f.used.cert || found.key != f.used.key {
		f.log.Info("New certificate found, reloading", "until", id.pair.Leaf.NotAfter)
	}
	if found.ca != f.used.ca {
		f.log.Info("New client CA found, reloading and patching webhook")
	}
	f.used = found
	f.offer(id, now)
	return nil
}

// logExpired logs once that the serving certificate, or its CA, has expired.
func (f *files) logExpired(now time.Time) {
	expired := f.serving.expired(now)
	if expired && !f.expired {
		file := f.Cert
		if f.serving.until().Before(f.serving.pair.Leaf.NotAfter) {
			file = f.CA
		}
		f.log.Error(nil, "the serving certificate or its CA has expired, so API servers do not call the webhook and apply its failurePolicy; replace the file and, without --reload-cert, restart",
			"file", file, "until", f.serving.until())
	}
	f.expired = expired
}

// wayOut ends errors about files.
const wayOut = "; give PEM files, or let celvpa make its own certificates: give none of --tls-cert-file, --tls-private-key and --client-ca-file, and leave no files at their defaults"

func (f *files) readAll() (c content, err error) {
	read := func(flag, path string) string {
		if err != nil {
			return ""
		}
		var text []byte
		if text, err = f.readFile(path); err != nil {
			err = fmt.Errorf("%s: reading the webhook's certificates: %w%s", flag, err, wayOut)
		}
		return string(text)
	}
	c.cert, c.key = read("--tls-cert-file", f.Cert), read("--tls-private-key", f.Key)
	if !f.Unpublished {
		c.ca = read("--client-ca-file", f.CA)
	}
	return c, err
}

func (f *files) parse(c content) (id identity, err error) {
	pair, err := tls.X509KeyPair([]byte(c.cert), []byte(c.key))
	if err != nil {
		return id, fmt.Errorf("--tls-cert-file %s and --tls-private-key %s: %w%s", f.Cert, f.Key, err, wayOut)
	}
	id.pair = &pair
	if !f.Unpublished {
		if id.cas, err = parseCAs([]byte(c.ca)); err != nil {
			return id, fmt.Errorf("--client-ca-file %s: %w%s", f.CA, err, wayOut)
		}
	}
	return id, nil
}

// trusted returns an error if API servers that know the CAs would refuse the certificate for one of the hosts. It ignores the dates.
func (f *files) trusted(id identity, hosts ...string) error {
	if f.Unpublished {
		return nil
	}
	leaf, at := id.pair.Leaf, f.Source.clock.Now()
	if at.Before(leaf.NotBefore) {
		at = leaf.NotBefore
	}
	if at.After(leaf.NotAfter) {
		at = leaf.NotAfter
	}
	chain, err := x509.ParseCertificates(slices.Concat(id.pair.Certificate...))
	for _, host := range append([]string{""}, hosts...) { // "" checks the chain only
		if err == nil {
			_, err = leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: poolOf(id.cas), Intermediates: poolOf(chain), CurrentTime: at})
		}
	}
	if err != nil {
		return fmt.Errorf("--tls-cert-file %s does not fit --client-ca-file %s: %w", f.Cert, f.CA, err)
	}
	return nil
}

// RequireClientCertificates changes a TLS configuration in place, so that it accepts only clients with a certificate signed by a CA
// in a PEM file. It reads the file again for each connection, so the CAs can be replaced; while the file is unusable, the last
// good CAs stay. The error says why it is unusable now.
func RequireClientCertificates(config *tls.Config, path string, log logr.Logger) error {
	cas, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", path)
	if err != nil {
		return fmt.Errorf("--api-server-client-ca-file: %w; give the CAs in PEM that sign the client certificates of API servers", err)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if err := cas.RunOnce(context.Background()); err != nil {
			log.Error(err, "cannot reload the client CAs; the last good ones stay", "flag", "--api-server-client-ca-file")
		}
		verify, _ := cas.VerifyOptions() // there are always some
		c := config.Clone()
		c.ClientCAs, c.GetConfigForClient = verify.Roots, nil
		return c, nil
	}
	return nil
}

func poolOf(cas []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range cas {
		pool.AddCert(ca)
	}
	return pool
}
