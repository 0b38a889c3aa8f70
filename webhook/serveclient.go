package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"

	"github.com/go-logr/logr"
)

// RequireClientCertificates makes a TLS configuration, in place, accept only clients that show a certificate of the CAs in a PEM file. The file
// is read again for each connection, so that CAs can be replaced; while it cannot be used the last good CAs stay. The error says
// why it cannot be used now.
func RequireClientCertificates(config *tls.Config, path string, log logr.Logger) error {
	cas := &clientCAs{path: path}
	if _, err := cas.pool(); err != nil {
		return err
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := cas.pool()
		if err != nil {
			log.Error(err, "keeping the last good CAs of client certificates")
		}
		c := config.Clone()
		c.ClientCAs, c.GetConfigForClient = pool, nil
		return c, nil
	}
	return nil
}

// clientCAs are the CAs in a file.
type clientCAs struct {
	path string

	mu   sync.Mutex
	text []byte // what good was read from
	good *x509.CertPool
}

// pool reads the file. With an error it is the last good one.
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
