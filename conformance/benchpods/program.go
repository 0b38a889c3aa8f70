package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"

	"github.com/celvpa/celvpa/conformance/harness"
)

// process is an admission controller that runs.
type process struct {
	*harness.Measured
	address string // of its webhook
	metrics string // of its metrics
}

// start runs a program with default flags, but for where it listens and its certificate. It is not registered: whoever asks it knows
// where it is.
func (b *bench) start(p harness.Program, turn int) (*process, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cert, key := b.certificate()
	command := append(append(b.cores.pin, p.Path), p.Args...)
	command = append(command, "--kubeconfig="+b.kubeconfig, "--address="+metrics, "--port="+port, "--register-webhook=false",
		"--client-ca-file="+cert, "--tls-cert-file="+cert, "--tls-private-key="+key)
	if b.profile {
		command = append(command, "--profiling")
	}
	log := filepath.Join(b.folder, fmt.Sprintf("%s-%d.log", filepath.Base(p.Path), turn+1))
	one, err := harness.StartMeasured(log, b.cores.env, command[0], command[1:]...)
	if err != nil {
		return nil, err
	}
	return &process{Measured: one, address: address, metrics: metrics}, nil
}

func (b *bench) certificate() (cert, key string) {
	return filepath.Join(b.folder, "tls.crt"), filepath.Join(b.folder, "tls.key")
}

// writeCertificate makes the certificate that both programs serve with.
func (b *bench) writeCertificate() error {
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return fmt.Errorf("making a certificate: %w", err)
	}
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return err
	}
	cert, key := b.certificate()
	if err := os.WriteFile(cert, certPEM, 0o644); err != nil {
		return err
	}
	return os.WriteFile(key, keyPEM, 0o600)
}

// dial opens a connection as API servers do.
func (b *bench) dial(address, protocol string) (*tls.Conn, error) {
	cert, _ := b.certificate()
	data, err := os.ReadFile(cert)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data)
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, NextProtos: []string{protocol}})
	if err != nil {
		return nil, fmt.Errorf("connecting to the webhook: %w", err)
	}
	if got := c.ConnectionState().NegotiatedProtocol; got != protocol {
		c.Close()
		return nil, fmt.Errorf("the webhook speaks %q instead of %s", got, protocol)
	}
	return c, nil
}
