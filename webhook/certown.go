package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

const (
	// caName is how replicas know the CAs of each other.
	caName = "celvpa_webhook_ca"

	// DefaultCALifetime is also how long API servers trust the CA of a replica that was killed and does not come back.
	DefaultCALifetime = 7 * 24 * time.Hour
	// DefaultServingLifetime is that of a serving certificate.
	DefaultServingLifetime = 24 * time.Hour

	// longestSettle is what API servers that are behind get to see a new bundle.
	longestSettle = 10 * time.Second
	// longestGrace must be longer than replicas take to read changed files one after the other.
	longestGrace = 10 * time.Minute
	clockSkew    = time.Hour
)

// SelfSigned is a certificate authority in memory and the serving certificates that it issues for a set of names. Keys never
// leave the process; API servers trust them through the caBundle of the registration. After two thirds of its life a serving
// certificate is followed by another, and a CA after half of its life, in the order that Certificates tells of.
type SelfSigned struct {
	rotation
	hosts            []string
	replica          string
	caLife, lifetime time.Duration
	log              logr.Logger
}

// OwnOptions are what a SelfSigned is made with. Zero times are defaults.
type OwnOptions struct {
	Hosts []string // DNS names and IP addresses, at least one
	// Replica tells this process from its replicas, and is the same after a restart: the CA of the process before is not trusted any
	// longer then. Empty = CAs of processes that were killed stay until they expire.
	Replica     string
	CALifetime  time.Duration // 0 = 7 days
	Lifetime    time.Duration // of serving certificates; 0 = 24 hours. None outlives its CA
	Unpublished bool          // nobody writes the registration: new certificates are shown at once
	Clock       clock.Clock
	Log         logr.Logger
}

// NewSelfSigned makes a CA that issues certificates for the given DNS names and IP addresses, for whoever knows by other ways
// what to trust.
func NewSelfSigned(clk clock.Clock, hosts ...string) (*SelfSigned, error) {
	return NewOwn(OwnOptions{Hosts: hosts, Unpublished: true, Clock: clk, Log: logr.Discard()})
}

// NewOwn makes a CA.
func NewOwn(o OwnOptions) (*SelfSigned, error) {
	if len(o.Hosts) == 0 {
		return nil, errors.New("a serving certificate needs the name of a host")
	}
	s := &SelfSigned{hosts: o.Hosts, replica: o.Replica, caLife: o.CALifetime, lifetime: o.Lifetime, log: o.Log}
	if s.caLife == 0 {
		s.caLife = DefaultCALifetime
	}
	if s.lifetime == 0 {
		s.lifetime = DefaultServingLifetime
	}
	s.rotation.clock, s.rotation.alone = o.Clock, o.Unpublished
	s.settle, s.grace = min(longestSettle, s.caLife/10), min(longestGrace, s.caLife/4)
	s.shown = func(id identity) {
		s.log.Info("certificates of the new CA are shown now", "serial", id.cas[0].SerialNumber, "until", id.cas[0].NotAfter)
	}
	first, err := s.newIdentity()
	if err != nil {
		return nil, err
	}
	s.begin(first)
	return s, nil
}

// GetCertificate implements Certificates.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.Lock()
	defer s.Unlock()
	s.renew()
	return s.serving.pair, nil
}

// Bundle implements Certificates. CAs of other replicas stay in the registration, one of this replica from before its restart does not.
func (s *SelfSigned) Bundle() Bundle {
	s.Lock()
	defer s.Unlock()
	b := s.bundle()
	b.Private, b.Keeps = true, func(c *x509.Certificate) bool {
		return c.Subject.CommonName == caName && (s.replica == "" || !slices.Contains(c.Subject.OrganizationalUnit, s.replica))
	}
	return b
}

// Changed implements Certificates.
func (s *SelfSigned) Changed() <-chan struct{} { return s.changed }

// Published implements Certificates.
func (s *SelfSigned) Published(b Bundle) {
	s.Lock()
	defer s.Unlock()
	s.confirm(b)
}

// NeedLeaderElection implements Certificates.
func (s *SelfSigned) NeedLeaderElection() bool { return false }

// Start implements Certificates.
func (s *SelfSigned) Start(ctx context.Context) error {
	s.watch(ctx, max(20*time.Millisecond, min(time.Second, s.caLife/50, s.lifetime/50)), s.renew)
	return nil // stopped
}

// renew makes what is due. The serving certificate comes first: one that has expired, as while the machine slept, gives way to one
// of the same CA, not to one of a CA that nobody trusts yet. A failure, which is one of this machine's random numbers, is tried
// again soon.
func (s *SelfSigned) renew() {
	now := s.rotation.clock.Now()
	ca, leaf := s.serving.by, s.serving.pair.Leaf
	if due := leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore.Add(clockSkew)) / 3); !now.Before(due) && now.Before(ca.cert.NotAfter) {
		pair, err := ca.issue(now, s.lifetime, s.hosts)
		if err != nil {
			s.log.Error(err, "there is no new serving certificate")
			return
		}
		s.serving.pair = pair
		s.log.V(1).Info("there is a new serving certificate", "serial", pair.Leaf.SerialNumber, "until", pair.Leaf.NotAfter)
	}
	s.advance()
	if s.next == nil && !now.Before(s.serving.by.due) {
		next, err := s.newIdentity()
		if err != nil {
			s.log.Error(err, "there is no new CA")
			return
		}
		s.log.Info("a new CA is to be published", "serial", next.cas[0].SerialNumber)
		s.offer(next)
	}
}

func (s *SelfSigned) newIdentity() (identity, error) {
	now := s.rotation.clock.Now()
	ca, err := newAuthority(now, s.caLife, s.replica)
	if err != nil {
		return identity{}, fmt.Errorf("making a CA: %w", err)
	}
	pair, err := ca.issue(now, s.lifetime, s.hosts)
	if err != nil {
		return identity{}, err
	}
	return identity{pair: pair, cas: []*x509.Certificate{ca.cert}, by: ca}, nil
}

// authority is a CA with its key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	due  time.Time // when it is to be followed by another
}

func newAuthority(now time.Time, life time.Duration, replica string) (*authority, error) {
	key, serial, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: caName},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	if replica != "" {
		template.Subject.OrganizationalUnit = []string{replica}
	}
	cert, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, due: now.Add(life / 2)}, nil
}

// issue makes a serving certificate.
func (a *authority) issue(now time.Time, life time.Duration, hosts []string) (*tls.Certificate, error) {
	key, serial, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("making a serving certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: hosts[0]},
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(life),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if len(hosts[0]) > 64 { // more is not allowed there, and nobody looks at it
		template.Subject.CommonName = ""
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("making a serving certificate for %q: %w", hosts, err)
	}
	return &tls.Certificate{Certificate: [][]byte{cert.Raw, a.cert.Raw}, PrivateKey: key, Leaf: cert}, nil
}

func newKey() (*ecdsa.PrivateKey, *big.Int, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("making a serial number: %w", err)
	}
	return key, serial.Add(serial, big.NewInt(1)), nil
}

func sign(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
