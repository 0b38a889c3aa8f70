package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Source provides the serving certificate, and the CAs by which API servers trust it, in the order that the package comment
// describes.
type Source interface {
	// GetCertificate is for tls.Config.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Bundle returns what the caBundle of the registration needs now.
	Bundle() Bundle
	// Changed receives a value after Bundle has changed.
	Changed() <-chan struct{}
	// Published confirms that the registration has what a bundle needs.
	Published(Bundle)
	// Start renews or reloads the certificates until the context ends.
	Start(ctx context.Context) error
	// NeedLeaderElection is false: every replica has certificates.
	NeedLeaderElection() bool
}

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

// identity is a serving certificate with the CAs that a client must know to trust it.
type identity struct {
	pair *tls.Certificate
	cas  []*x509.Certificate
	by   *authority // that issued it and can issue the next; nil for certificates from files
}

// until is when API servers stop to trust the certificate: when it expires, or the last CA that they
// know; zero = not known.
func (i identity) until() time.Time {
	if i.pair.Leaf == nil {
		return time.Time{}
	}
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

func (i identity) expired(now time.Time) bool {
	until := i.until()
	return !until.IsZero() && now.After(until)
}

// early reports whether the certificate is not valid yet: the clock was ahead when it was issued.
func (i identity) early(now time.Time) bool {
	return i.pair.Leaf != nil && now.Before(i.pair.Leaf.NotBefore)
}

// rotation keeps the order in which certificates and their CAs come and go. Callers hold its lock.
type rotation struct {
	sync.Mutex
	clock  clock.Clock
	settle time.Duration // from when a CA is published to when its certificates are served
	grace  time.Duration // from when a CA's last certificate is replaced to when the CA is retired
	// unpublished means that nobody writes the registration: new certificates are served at once.
	unpublished bool

	serving   identity
	next      *identity // served once its CAs are trusted
	published time.Time // when the CAs of next were published; zero before
	leaving   []leaving
	retired   []*x509.Certificate // no longer needed, and perhaps still in the registration
	changed   chan struct{}
	// onServe is called when the first certificate of another CA is served.
	onServe func(identity)
}

type leaving struct {
	ca *x509.Certificate
	at time.Time
}

// start serves the first certificate at once: API servers trust no other one of this process.
func (r *rotation) start(first identity) {
	r.serving = first
	r.changed = make(chan struct{}, 1)
}

// offer replaces the serving certificate, as soon as API servers can trust the new one.
func (r *rotation) offer(id identity) {
	now := r.clock.Now()
	if r.next != nil { // replicas that read the same files may serve it already
		r.leave(r.next.cas, slices.Concat(id.cas, r.serving.cas), now)
		r.next = nil
	}
	trusted := r.serving.cas
	if len(without(id.cas, trusted)) == 0 || r.unpublished {
		r.serve(id, now)
		return
	}
	r.next, r.published = &id, time.Time{}
	r.leaving = kept(r.leaving, func(l leaving) bool { return !contains(id.cas, l.ca) })
	r.retired = without(r.retired, id.cas)
	r.notify()
}

// serve replaces the serving certificate now.
func (r *rotation) serve(id identity, now time.Time) {
	before := r.serving
	r.serving = id
	r.leave(before.cas, id.cas, now)
	if r.onServe != nil && len(without(id.cas, before.cas)) > 0 {
		r.onServe(id)
	}
	r.notify()
}

// leave retires CAs after the grace period, except those that are still needed.
func (r *rotation) leave(cas, needed []*x509.Certificate, now time.Time) {
	for _, ca := range without(cas, needed) {
		r.leaving = append(r.leaving, leaving{ca: ca, at: now.Add(r.grace)})
	}
}

// confirm records that the registration has the CAs of a bundle.
func (r *rotation) confirm(b Bundle) {
	if r.next != nil && r.published.IsZero() && len(without(r.next.cas, b.Needed)) == 0 {
		r.published = r.clock.Now()
	}
	r.retired = without(r.retired, b.Retired) // the registration no longer has them
}

// advance does what is due now.
func (r *rotation) advance() {
	now := r.clock.Now()
	// API servers refuse an expired certificate anyway, so the next one need not wait to be trusted.
	if r.next != nil && (!r.published.IsZero() && !now.Before(r.published.Add(r.settle)) || r.serving.expired(now) || r.serving.early(now)) {
		id := *r.next
		r.next = nil
		r.serve(id, now)
	}
	r.leaving = kept(r.leaving, func(l leaving) bool {
		if now.Before(l.at) {
			return true
		}
		r.retired = append(r.retired, l.ca)
		r.notify()
		return false
	})
}

// bundle returns the CAs that are needed now, and those to remove.
func (r *rotation) bundle() Bundle {
	var b Bundle
	if r.next != nil {
		b.Needed = append(b.Needed, r.next.cas...)
	}
	b.Needed = append(b.Needed, without(r.serving.cas, b.Needed)...)
	for _, l := range r.leaving {
		b.Needed = append(b.Needed, without([]*x509.Certificate{l.ca}, b.Needed)...)
	}
	b.Retired = without(r.retired, b.Needed)
	return b
}

func (r *rotation) notify() {
	select {
	case r.changed <- struct{}{}:
	default: // a notification is pending already
	}
}

// watch calls a function at an interval, holding the lock, until the context ends.
func (r *rotation) watch(ctx context.Context, every time.Duration, do func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(every):
		}
		r.Lock()
		do()
		if leaf := r.serving.pair.Leaf; leaf != nil {
			begins.WithLabelValues().Set(float64(leaf.NotBefore.Unix()))
			expires.WithLabelValues().Set(float64(r.serving.until().Unix()))
		}
		r.Unlock()
	}
}

func contains(list []*x509.Certificate, c *x509.Certificate) bool {
	return slices.ContainsFunc(list, c.Equal)
}

// without returns the entries of a list that another does not have.
func without(list, other []*x509.Certificate) []*x509.Certificate {
	return kept(list, func(c *x509.Certificate) bool { return !contains(other, c) })
}

// kept returns a new list of the entries that keep accepts.
func kept[T any](list []T, keep func(T) bool) []T {
	var out []T
	for _, one := range list {
		if keep(one) {
			out = append(out, one)
		}
	}
	return out
}
