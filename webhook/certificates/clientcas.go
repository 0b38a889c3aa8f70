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
	var mu sync.Mutex
	var text []byte // that good was parsed from
	var good *x509.CertPool
	read := func() (*x509.CertPool, error) {
		mu.Lock()
		defer mu.Unlock()
		found, err := os.ReadFile(path)
		if err != nil {
			return good, fmt.Errorf("--api-server-client-ca-file: %w", err)
		}
		if good != nil && bytes.Equal(found, text) {
			return good, nil
		}
		cas, err := parseCAs(found)
		if err != nil {
			return good, fmt.Errorf("--api-server-client-ca-file %s: %w; give the CAs in PEM that sign the client certificates of API servers", path, err)
		}
		text, good = found, poolOf(cas)
		return good, nil
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := read()
		if err != nil {
			log.Error(err, "cannot reload the client CAs; the last good ones stay")
		}
		c := config.Clone()
		c.ClientCAs, c.GetConfigForClient = pool, nil
		return c, nil
	}
	_, err := read()
	return err
}

func poolOf(cas []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range cas {
		pool.AddCert(ca)
	}
	return pool
}
