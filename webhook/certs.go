package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Certificates are what the server shows to API servers, and what these need to trust it. When the CA changes, the order is: the
// registration gets both CAs, Published tells that it has them, and only then, after a moment for API servers to see it, is the
// new certificate shown; so at no time is one shown that is not trusted. The old CA stays for a while.
type Certificates interface {
	// GetCertificate is for tls.Config.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Bundle is what the caBundle of the registration needs now.
	Bundle() Bundle
	// Changed has something to be received when Bundle has changed.
	Changed() <-chan struct{}
	// Published tells that the registration has what a bundle needs.
	Published(Bundle)
	// Start watches over the certificates until the context ends.
	Start(ctx context.Context) error
	// NeedLeaderElection is false: every replica has certificates.
	NeedLeaderElection() bool
}

// identity is a certificate to show, and the CAs that one must know to trust it.
type identity struct {
	pair *tls.Certificate
	cas  []*x509.Certificate
	by   *authority // that can issue another; nil for certificates from files
}

func (i identity) expired(now time.Time) bool {
	return i.pair.Leaf != nil && now.After(i.pair.Leaf.NotAfter)
}

// rotation is the order in which certificates and their CAs come and go. Whoever uses it holds its lock.
type rotation struct {
	sync.Mutex
	clock  clock.Clock
	settle time.Duration // between a CA being published and its certificates being shown
	grace  time.Duration // between the last certificate of a CA and the end of the CA
	// alone tells that nobody publishes what changes: certificates are shown at once.
	alone bool

	serving   identity
	next      *identity // waits for its CAs to be trusted
	published time.Time // when those were published; zero before
	leaving   []leaving
	retired   []*x509.Certificate // not needed any more, and perhaps still in the registration
	changed   chan struct{}
	// shown is called when another CA's certificates are shown.
	shown func(identity)
}

type leaving struct {
	ca *x509.Certificate
	at time.Time
}

// begin shows the first certificate, which needs no order: nobody has trusted another one of this process.
func (r *rotation) begin(first identity) {
	r.serving = first
	r.changed = make(chan struct{}, 1)
}

// offer says that a certificate is to be shown from now on. It is when its CAs are trusted.
func (r *rotation) offer(id identity) {
	now := r.clock.Now()
	if r.next != nil { // replicas that read the same files may show it already
		r.leave(r.next.cas, slices.Concat(id.cas, r.serving.cas), now)
		r.next = nil
	}
	trusted := r.serving.cas
	if len(without(id.cas, trusted)) == 0 || r.alone {
		r.show(id, now)
		return
	}
	r.next, r.published = &id, time.Time{}
	r.leaving = kept(r.leaving, func(l leaving) bool { return !contains(id.cas, l.ca) })
	r.retired = without(r.retired, id.cas)
	r.tell()
}

// show puts a certificate in the place of the one that is shown.
func (r *rotation) show(id identity, now time.Time) {
	before := r.serving
	r.serving = id
	r.leave(before.cas, id.cas, now)
	if r.shown != nil && len(without(id.cas, before.cas)) > 0 {
		r.shown(id)
	}
	r.tell()
}

// leave lets CAs go after the grace, except those that are still needed.
func (r *rotation) leave(cas, needed []*x509.Certificate, now time.Time) {
	for _, ca := range without(cas, needed) {
		r.leaving = append(r.leaving, leaving{ca: ca, at: now.Add(r.grace)})
	}
}

// confirm notes that the CAs of a bundle are published.
func (r *rotation) confirm(b Bundle) {
	if r.next != nil && r.published.IsZero() && len(without(r.next.cas, b.Needed)) == 0 {
		r.published = r.clock.Now()
	}
	r.retired = without(r.retired, b.Retired) // they are out
}

// advance does what it is time for.
func (r *rotation) advance() {
	now := r.clock.Now()
	// A certificate that has expired is no better than one that is not trusted yet.
	if r.next != nil && (!r.published.IsZero() && !now.Before(r.published.Add(r.settle)) || r.serving.expired(now)) {
		id := *r.next
		r.next = nil
		r.show(id, now)
	}
	r.leaving = kept(r.leaving, func(l leaving) bool {
		if now.Before(l.at) {
			return true
		}
		r.retired = append(r.retired, l.ca)
		r.tell()
		return false
	})
}

// bundle is what is needed now, and what is not any more.
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

func (r *rotation) tell() {
	select {
	case r.changed <- struct{}{}:
	default: // it is known
	}
}

// watch calls a function, with the lock, every so often until the context ends.
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
			certificateExpires.Set(float64(leaf.NotAfter.Unix()))
		}
		r.Unlock()
	}
}

func contains(list []*x509.Certificate, c *x509.Certificate) bool {
	for _, one := range list {
		if one.Equal(c) {
			return true
		}
	}
	return false
}

// without is a list less those that are in another.
func without(list, other []*x509.Certificate) []*x509.Certificate {
	return kept(list, func(c *x509.Certificate) bool { return !contains(other, c) })
}

// kept is a new list of those that are kept.
func kept[T any](list []T, keep func(T) bool) []T {
	var out []T
	for _, one := range list {
		if keep(one) {
			out = append(out, one)
		}
	}
	return out
}
