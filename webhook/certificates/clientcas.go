package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"

	"github.com/go-logr/logr"
)

// RequireClientCertificates changes a TLS configuration in place, so that it accepts only clients with a certificate signed by a CA
// in a PEM file. It reads the file again for each connection, so the CAs can be replaced; while the file is unusable, the last
// good CAs stay. The error says why it is unusable now.
func RequireClientCertificates(config *tls.Config, path string, log logr.Logger) error {
	cas := &clientCAs{path: path}
	if _, err := cas.pool(); err != nil {
		return err
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := cas.pool()
		if err != nil {
			log.Error(err, "cannot reload the client CAs; the last good ones stay")
		}
		c := config.Clone()
		c.ClientCAs, c.GetConfigForClient = pool, nil
		return c, nil
	}
	return nil
}

// clientCAs caches the CAs in a file.
type clientCAs struct {
	path string

	mu   sync.Mutex
	text []byte // that good was parsed from
	good *x509.CertPool
}

// pool reads the file. With an error it returns the last good CAs.
func (c *clientCAs) pool() (*x509.CertPool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, err := os.ReadFile(c.path)
	if err != nil {
		return c.good, fmt.Errorf("--api-server-client-ca-file: %w", err)
	}
	if c.good != nil && bytes.Equal(text, c.text) {
		return c.good, nil
	}
	found, err := parseCAs(text)
	if err != nil {
		return c.good, fmt.Errorf("--api-server-client-ca-file %s: %w; give the CAs in PEM that sign the client certificates of API servers", c.path, err)
	}
	pool := x509.NewCertPool()
	for _, ca := range found {
		pool.AddCert(ca)
	}
	c.text, c.good = text, pool
	return pool, nil
}
