package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// caLifetime must be longer than any process lives: the CA is made once at start.
	caLifetime = 10 * 365 * 24 * time.Hour
	// servingLifetime is how long a serving certificate is valid; a new one is made after two thirds of it.
	servingLifetime = 90 * 24 * time.Hour
	clockSkew       = time.Hour
)

// SelfSigned is a certificate authority in memory and the serving certificate it issues for a set of names.
// The key never leaves the process; API servers trust it through the caBundle of the webhook registration.
type SelfSigned struct {
	hosts []string
	clock clock.PassiveClock
	ca    *x509.Certificate
	caKey *ecdsa.PrivateKey
	caPEM []byte

	mu      sync.Mutex
	serving *tls.Certificate
	renewAt time.Time
}

// NewSelfSigned makes a CA that issues certificates for the given DNS names and IP addresses.
func NewSelfSigned(clk clock.PassiveClock, hosts ...string) (*SelfSigned, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA key: %w", err)
	}
	now := clk.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "celvpa_webhook_ca"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("making the CA certificate: %w", err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making the CA certificate: %w", err)
	}
	s := &SelfSigned{hosts: hosts, clock: clk, ca: ca, caKey: key}
	s.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	_, err = s.Certificate()
	return s, err
}

// CABundle is the CA certificate in PEM.
func (s *SelfSigned) CABundle() []byte { return s.caPEM }

// GetCertificate is for tls.Config.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.Certificate()
}

// Certificate is the serving certificate, renewed when two thirds of its life have passed.
func (s *SelfSigned) Certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.serving != nil && now.Before(s.renewAt) {
		return s.serving, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the serving key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: s.hosts[0]},
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(servingLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range s.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.ca, &key.PublicKey, s.caKey)
	if err != nil {
		return nil, fmt.Errorf("making the serving certificate: %w", err)
	}
	s.serving = &tls.Certificate{Certificate: [][]byte{der, s.ca.Raw}, PrivateKey: key}
	s.renewAt = now.Add(servingLifetime * 2 / 3)
	return s.serving, nil
}
