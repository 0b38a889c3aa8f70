// Package certificates holds the certificates that the webhook serves with, and the CAs by which API servers trust it: from
// files that somebody else renews (NewFiles), or made and rotated by this process itself (NewSelfSigned).
//
// The one invariant: API servers are never shown a certificate that they cannot trust yet. When the CA changes,
//
//  1. the caBundle of the registration gets the new CA beside the old one,
//  2. Published confirms that it has both,
//  3. after a moment in which API servers see the change, the new certificate is served,
//  4. after a grace period, for replicas that still serve the old certificate, the old CA leaves the bundle.
//
// Nothing here talks to the API server: the registrar of package webhook writes the bundle.
package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Vectors without labels have no series, in components without a certificate not even 0.
var (
	begins = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "celvpa_admission_certificate_not_before_timestamp_seconds",
		Help: "When the validity of the serving certificate in use began, in seconds since 1970.",
	}, nil)
	expires = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "celvpa_admission_certificate_expiration_timestamp_seconds",
		Help: "When the serving certificate in use expires, or before that its CA, in seconds since 1970.",
	}, nil)
)

func init() { metrics.Registry.MustRegister(begins, expires) }

const (
	// maxSettle is how long API servers may take to see a changed registration.
	maxSettle = 10 * time.Second
	// maxGrace must be longer than it takes all replicas to read changed files.
	maxGrace = 10 * time.Minute
)

// identity is a serving certificate with the CAs that a client must know to trust it.
type identity struct {
	pair *tls.Certificate
	cas  []*x509.Certificate // none = not known
	by   *authority          // that issued it and can issue the next; nil for certificates from files
}

// until is when API servers stop trusting the certificate: when it expires, or the last of its CAs.
func (i identity) until() time.Time {
	end := i.pair.Leaf.NotAfter
	if len(i.cas) == 0 {
		return end
	}
	last := slices.MaxFunc(i.cas, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
	if last.Before(end) {
		return last
	}
	return end
}

func (i identity) expired(now time.Time) bool { return now.After(i.until()) }

// early reports whether the certificate is not valid yet: the clock was ahead when it was issued.
func (i identity) early(now time.Time) bool { return now.Before(i.pair.Leaf.NotBefore) }

// Source provides the serving certificate, and the CAs by which API servers trust it, in the order that the package comment
// describes. It is safe for concurrent use.
type Source struct {
	clock       clock.Clock
	log         logr.Logger
	settle      time.Duration // from when a CA is published to when its certificates are served
	grace       time.Duration // from when a CA's last certificate is replaced to when the CA is retired
	interval    time.Duration // between two calls of renew by Start
	unpublished bool          // nobody writes the registration: new certificates are served at once
	measured    bool          // by the gauges
	private     bool          // see Bundle
	keeps       func(*x509.Certificate) bool
	exactAt     time.Time // from when on the registration must have exactly the needed CAs, once; zero = it need not, or had
	// renew offers the certificate that is due at a time, if one is. It is called with the lock held.
	renew func(now time.Time)

	mu        sync.Mutex
	serving   identity
	next      *identity // served once its CAs are trusted
	published time.Time // when the CAs of next were published; zero before
	leaving   []leaving
	retired   []*x509.Certificate // no longer needed, and possibly still in the registration
	changed   chan struct{}
}

type leaving struct {
	ca *x509.Certificate
	at time.Time
}

// GetCertificate is for tls.Config.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return s.serving.pair, nil
}

// Changed receives a value after Bundle has changed.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// NeedLeaderElection is false: every replica has certificates.
func (s *Source) NeedLeaderElection() bool { return false }

// Start renews or reloads the certificates until the context ends.
func (s *Source) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(s.interval):
			s.tick()
		}
	}
}

func (s *Source) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	if !s.measured {
		return
	}
	begins.WithLabelValues().Set(float64(s.serving.pair.Leaf.NotBefore.Unix()))
	expires.WithLabelValues().Set(float64(s.serving.until().Unix()))
}

// Bundle returns what the caBundle of the registration needs now.
func (s *Source) Bundle() Bundle {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Bundle{Private: s.private}
	if s.exactAt.IsZero() || s.clock.Now().Before(s.exactAt) {
		b.Keeps = s.keeps
	}
	need := func(cas ...*x509.Certificate) { b.Needed = append(b.Needed, without(cas, b.Needed)...) }
	if s.next != nil {
		need(s.next.cas...)
	}
	need(s.serving.cas...)
	for _, l := range s.leaving {
		need(l.ca)
	}
	b.Retired = without(s.retired, b.Needed)
	return b
}

// Published confirms that the registration has what a bundle needs.
func (s *Source) Published(b Bundle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Keeps == nil {
		s.exactAt = time.Time{}
	}
	if s.next != nil && s.published.IsZero() && len(without(s.next.cas, b.Needed)) == 0 {
		s.published = s.clock.Now()
		s.log.Info("Successfully patched webhook with new client CA") // tools match this text (UPSTREAM.md §4.9)
	}
	s.retired = without(s.retired, b.Retired)
}

// advance does what is due now.
func (s *Source) advance() {
	now := s.clock.Now()
	s.renew(now)
	// API servers refuse an expired certificate anyway, so the next one need not wait to be trusted.
	if s.next != nil && (!s.published.IsZero() && !now.Before(s.published.Add(s.settle)) || s.serving.expired(now) || s.serving.early(now)) {
		s.serve(*s.next, now)
	}
	s.leaving = slices.DeleteFunc(s.leaving, func(l leaving) bool {
		due := !now.Before(l.at)
		if due {
			s.retired = append(s.retired, l.ca)
			s.notify()
		}
		return due
	})
}

// offer replaces the serving certificate, as soon as API servers can trust the new one.
func (s *Source) offer(id identity, now time.Time) {
	if s.next != nil { // replicas that read the same files may serve it already
		s.leave(s.next.cas, slices.Concat(id.cas, s.serving.cas), now)
	}
	if s.unpublished || len(without(id.cas, s.serving.cas)) == 0 {
		s.serve(id, now)
		return
	}
	s.next, s.published = &id, time.Time{}
	s.leaving = slices.DeleteFunc(s.leaving, func(l leaving) bool { return contains(id.cas, l.ca) })
	s.retired = without(s.retired, id.cas)
	s.notify()
}

// serve replaces the serving certificate now.
func (s *Source) serve(id identity, now time.Time) {
	s.leave(s.serving.cas, id.cas, now)
	s.serving, s.next = id, nil
	s.notify()
}

// leave retires CAs after the grace period, except those that are still needed.
func (s *Source) leave(cas, needed []*x509.Certificate, now time.Time) {
	for _, ca := range without(cas, needed) {
		s.leaving = append(s.leaving, leaving{ca, now.Add(s.grace)})
	}
}

func (s *Source) notify() {
	select {
	case s.changed <- struct{}{}:
	default: // a notification is pending already
	}
}

func contains(list []*x509.Certificate, c *x509.Certificate) bool {
	return slices.ContainsFunc(list, c.Equal)
}

// without returns the entries of a list that another does not have.
func without(list, other []*x509.Certificate) (out []*x509.Certificate) {
	for _, c := range list {
		if !contains(other, c) {
			out = append(out, c)
		}
	}
	return out
}
