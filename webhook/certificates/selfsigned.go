package certificates

import (
	"cmp"
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
	// caName is how replicas recognize each other's CAs.
	caName = "celvpa_webhook_ca"

	// DefaultCALifetime is also how long API servers trust the CA of a replica that was killed and does not come back.
	DefaultCALifetime = 7 * 24 * time.Hour
	// DefaultServingLifetime is how long a serving certificate is valid.
	DefaultServingLifetime = 24 * time.Hour

	// maxSettle is how long API servers may take to see a changed registration.
	maxSettle = 10 * time.Second
	// maxGrace must be longer than it takes all replicas to read changed files.
	maxGrace  = 10 * time.Minute
	clockSkew = time.Hour
)

// SelfSigned is a certificate authority in memory that issues serving certificates for a set of names. Its keys never leave the
// process; API servers trust it through the caBundle of the registration. It renews a serving certificate after two thirds of
// its lifetime, and its CA after half.
type SelfSigned struct {
	rotation
	hosts            []string
	replica          string
	caLife, lifetime time.Duration
	log              logr.Logger
}

// SelfSignedOptions configure a SelfSigned.
type SelfSignedOptions struct {
	Hosts []string // DNS names and IP addresses, at least one
	// Replica identifies this process among its replicas, and stays the same after a restart, so that the restarted process can
	// remove its former CA from the registration. Empty = CAs of killed processes stay until they expire.
	Replica     string
	CALifetime  time.Duration // 0 = DefaultCALifetime
	Lifetime    time.Duration // of serving certificates, which never outlive their CA; 0 = DefaultServingLifetime
	Unpublished bool          // nobody writes the registration: new certificates are served at once
	Clock       clock.Clock
	Log         logr.Logger
}

// NewSelfSigned makes a CA and its first serving certificate.
func NewSelfSigned(o SelfSignedOptions) (*SelfSigned, error) {
	if len(o.Hosts) == 0 {
		return nil, errors.New("a serving certificate needs a host name")
	}
	s := &SelfSigned{hosts: o.Hosts, replica: o.Replica, caLife: cmp.Or(o.CALifetime, DefaultCALifetime),
		lifetime: cmp.Or(o.Lifetime, DefaultServingLifetime), log: o.Log}
	s.rotation.clock, s.unpublished = o.Clock, o.Unpublished
	s.settle, s.grace = min(maxSettle, s.caLife/10), min(maxGrace, s.caLife/4)
	s.onServe = func(id identity) {
		s.log.Info("serving certificates of the new CA", "serial", id.cas[0].SerialNumber, "until", id.cas[0].NotAfter)
	}
	first, err := s.newIdentity()
	if err != nil {
		return nil, err
	}
	s.start(first)
	return s, nil
}

// GetCertificate implements Source.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.Lock()
	defer s.Unlock()
	s.renew()
	return s.serving.pair, nil
}

// Bundle implements Source. CAs of other replicas stay in the registration; a CA of this replica from before a restart does not.
func (s *SelfSigned) Bundle() Bundle {
	s.Lock()
	defer s.Unlock()
	b := s.bundle()
	b.Private, b.Keeps = true, func(c *x509.Certificate) bool {
		return c.Subject.CommonName == caName && (s.replica == "" || !slices.Contains(c.Subject.OrganizationalUnit, s.replica))
	}
	return b
}

// Changed implements Source.
func (s *SelfSigned) Changed() <-chan struct{} { return s.changed }

// Published implements Source.
func (s *SelfSigned) Published(b Bundle) {
	s.Lock()
	defer s.Unlock()
	s.confirm(b)
}

// NeedLeaderElection implements Source.
func (s *SelfSigned) NeedLeaderElection() bool { return false }

// Start implements Source.
func (s *SelfSigned) Start(ctx context.Context) error {
	s.watch(ctx, max(20*time.Millisecond, min(time.Second, s.caLife/50, s.lifetime/50)), s.renew)
	return nil // stopped
}

// renew issues what is due. The serving certificate comes first: when it expired, because the machine slept, the next one is of the
// same CA, not of a CA that nobody trusts yet. A failure can only come from the random number generator, and renew tries again
// at the next call.
func (s *SelfSigned) renew() {
	now := s.rotation.clock.Now()
	ca, leaf := s.serving.by, s.serving.pair.Leaf
	due := leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore.Add(clockSkew)) / 3)
	if (!now.Before(due) || s.serving.early(now)) && now.Before(ca.cert.NotAfter) && !now.Before(ca.cert.NotBefore) {
		pair, err := ca.issue(now, s.lifetime, s.hosts)
		if err != nil {
			s.log.Error(err, "cannot renew the serving certificate")
			return
		}
		s.serving.pair = pair
		s.log.V(1).Info("renewed the serving certificate", "serial", pair.Leaf.SerialNumber, "until", pair.Leaf.NotAfter)
	}
	s.advance()
	if s.next == nil && (!now.Before(s.serving.by.due) || now.Before(s.serving.by.cert.NotBefore)) {
		next, err := s.newIdentity()
		if err != nil {
			s.log.Error(err, "cannot make a new CA")
			return
		}
		s.log.Info("publishing a new CA", "serial", next.cas[0].SerialNumber)
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
	due  time.Time // when the next CA is made
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

// issue signs a serving certificate.
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
	if len(hosts[0]) > 64 { // X.509 allows no more, and clients ignore it
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
