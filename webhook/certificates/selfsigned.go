package certificates

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
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

	clockSkew = time.Hour
)

// SelfSignedOptions configure NewSelfSigned.
type SelfSignedOptions struct {
	Hosts []string // DNS names and IP addresses, at least one
	// Replica identifies this process among its replicas, and stays the same after a restart, so that the restarted process can
	// remove its former CA from the registration. Empty = CAs of killed processes stay until they expire.
	Replica     string
	CALifetime  time.Duration // 0 = DefaultCALifetime
	Lifetime    time.Duration // of serving certificates, which never outlive their CA; 0 = DefaultServingLifetime
	Unpublished bool          // nobody writes the registration: new certificates are served at once
	Measured    bool          // by the gauges celvpa_admission_certificate_*, which are about the webhook's
	Clock       clock.Clock
	Log         logr.Logger
}

// selfSigned is a certificate authority in memory that issues serving certificates for a set of names. Its keys never leave the
// process; API servers trust it through the caBundle of the registration. It renews a serving certificate after two thirds of
// its lifetime, and its CA after half.
type selfSigned struct {
	SelfSignedOptions
	*Source
}

// NewSelfSigned makes a CA and its first serving certificate. CAs of other replicas stay in the registration; a CA of this replica
// from before a restart does not.
func NewSelfSigned(o SelfSignedOptions) (*Source, error) {
	if len(o.Hosts) == 0 {
		return nil, errors.New("a serving certificate needs a host name")
	}
	o.CALifetime, o.Lifetime = cmp.Or(o.CALifetime, DefaultCALifetime), cmp.Or(o.Lifetime, DefaultServingLifetime)
	s := &selfSigned{SelfSignedOptions: o, Source: &Source{clock: o.Clock, log: o.Log, unpublished: o.Unpublished, measured: o.Measured, private: true,
		settle: min(maxSettle, o.CALifetime/10), grace: min(maxGrace, o.CALifetime/4), interval: max(20*time.Millisecond, min(time.Second, o.CALifetime/50, o.Lifetime/50)),
		keeps: func(c *x509.Certificate) bool {
			return c.Subject.CommonName == caName && (o.Replica == "" || !slices.Contains(c.Subject.OrganizationalUnit, o.Replica))
		}, changed: make(chan struct{}, 1)}}
	s.Source.renew = s.renew
	var err error
	s.serving, err = s.newIdentity(o.Clock.Now())
	return s.Source, err
}

// renew issues what is due. The serving certificate comes first: when it expired, because the machine slept, the next one is of the
// same CA, not of a CA that nobody trusts yet. What fails is tried again at the next call.
func (s *selfSigned) renew(now time.Time) {
	ca, err := s.serving.by, error(nil)
	if (!now.Before(dueAt(s.serving.pair.Leaf, 3)) || s.serving.early(now)) && now.Before(ca.cert.NotAfter) && !now.Before(ca.cert.NotBefore) {
		var pair *tls.Certificate
		if pair, err = ca.issue(now, s.Lifetime, s.Hosts); err == nil {
			s.serving.pair = pair
			s.log.V(1).Info("renewed the serving certificate", "serial", pair.Leaf.SerialNumber, "until", pair.Leaf.NotAfter)
		}
	}
	if err == nil && s.next == nil && (!now.Before(dueAt(ca.cert, 2)) || now.Before(ca.cert.NotBefore)) {
		var next identity
		if next, err = s.newIdentity(now); err == nil {
			s.log.Info("publishing a new CA", "serial", next.by.cert.SerialNumber, "until", next.by.cert.NotAfter)
			s.offer(next, now)
		}
	}
	if err != nil {
		s.log.Error(err, "cannot renew the webhook's certificates")
	}
}

// dueAt is when a certificate is replaced: when one of so many parts of its lifetime is left.
func dueAt(c *x509.Certificate, parts time.Duration) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore.Add(clockSkew)) / parts)
}

func (s *selfSigned) newIdentity(now time.Time) (identity, error) {
	ca, err := newAuthority(now, s.CALifetime, s.Replica)
	if err != nil {
		return identity{}, fmt.Errorf("making a CA: %w", err)
	}
	pair, err := ca.issue(now, s.Lifetime, s.Hosts)
	return identity{pair: pair, cas: []*x509.Certificate{ca.cert}, by: ca}, err
}

// authority is a CA with its key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(now time.Time, life time.Duration, replica string) (*authority, error) {
	template := &x509.Certificate{
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
	return sign(template, nil)
}

// issue signs a serving certificate.
func (a *authority) issue(now time.Time, life time.Duration, hosts []string) (*tls.Certificate, error) {
	template := &x509.Certificate{
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    now.Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if len(hosts[0]) <= 64 { // X.509 allows no more, and clients ignore it
		template.Subject.CommonName = hosts[0]
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
	leaf, err := sign(template, a)
	if err != nil {
		return nil, fmt.Errorf("making a serving certificate for %q: %w", hosts, err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.cert.Raw, a.cert.Raw}, PrivateKey: leaf.key, Leaf: leaf.cert}, nil
}

// sign makes a key, and a certificate of it by a CA; nil = by itself.
func sign(template *x509.Certificate, by *authority) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	by = cmp.Or(by, &authority{cert: template, key: key})
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}
