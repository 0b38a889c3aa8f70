package certificates

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxCAs bounds a bundle, because replicas that were killed leave their CAs in it. A replica that changes its CA needs two, so at
// least 50 have room. Each takes about 700 bytes.
const maxCAs = 100

// Bundle is what one process needs in the caBundle of the registration, which all replicas share.
type Bundle struct {
	Needed  []*x509.Certificate
	Retired []*x509.Certificate // no longer needed; Merge removes them
	// Keeps reports whether a CA of others stays in the bundle until it expires; nil = none stays.
	Keeps func(*x509.Certificate) bool
	// Private means that no other process needs these CAs, so they leave the bundle when the process stops.
	Private bool
}

// Withdrawn is the bundle of a process that stops: it needs nothing any more.
func (b Bundle) Withdrawn() Bundle {
	return Bundle{Retired: append(b.Needed, b.Retired...), Keeps: b.Keeps}
}

// PEM returns the needed CAs, newest first.
func (b Bundle) PEM() []byte { return encodeCAs(slices.Clone(b.Needed)) }

// Merge updates a caBundle. It returns the same bytes when there is nothing to change. Otherwise it sorts the CAs newest first, so
// that all replicas write the same bytes, keeps the newest of those that are not needed, up to maxCAs in all, and drops what it
// cannot parse.
func (b Bundle) Merge(old []byte, now time.Time) []byte {
	found, err := parseCAs(old)
	others := slices.DeleteFunc(without(found, b.Needed), func(c *x509.Certificate) bool {
		return contains(b.Retired, c) || b.Keeps == nil || !b.Keeps(c) || !now.Before(c.NotAfter)
	})
	if all := len(b.Needed) + len(others); err == nil && len(found) == all && len(without(b.Needed, found)) == 0 && all <= max(maxCAs, len(b.Needed)) {
		return old
	}
	slices.SortFunc(others, newestFirst)
	return encodeCAs(append(others[:min(len(others), max(0, maxCAs-len(b.Needed)))], b.Needed...))
}

func newestFirst(a, b *x509.Certificate) int {
	return cmp.Or(b.NotBefore.Compare(a.NotBefore), bytes.Compare(a.Raw, b.Raw))
}

// encodeCAs writes CAs as PEM, newest first, each once.
func encodeCAs(cas []*x509.Certificate) []byte {
	slices.SortFunc(cas, newestFirst)
	var out bytes.Buffer
	for _, c := range slices.CompactFunc(cas, (*x509.Certificate).Equal) {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a buffer does not fail
	}
	return out.Bytes()
}

// parseCAs reads the certificates of a PEM text, each once. Even with an error it returns those that it could read.
func parseCAs(text []byte) (out []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, failed := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" {
			failed = fmt.Errorf("it has a PEM block of type %q among its certificates", block.Type)
		}
		if err = errors.Join(err, failed); failed == nil {
			out = append(out, without([]*x509.Certificate{c}, out)...)
		}
	}
	if len(out) == 0 {
		err = errors.Join(err, errors.New("it has no certificate in PEM"))
	}
	return out, err
}
