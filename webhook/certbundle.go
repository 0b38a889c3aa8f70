package webhook

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// mostCAs is how many CAs a bundle may have, those of replicas that are gone included.
const mostCAs = 20

// Bundle is what one process needs in the caBundle of the registration, which it shares with its replicas.
type Bundle struct {
	Needed  []*x509.Certificate // must be in it
	Retired []*x509.Certificate // were needed, and are to go
	// Keeps tells which others stay, if they have not expired; nil = none does.
	Keeps func(*x509.Certificate) bool
	// Private tells that no other process needs what this one does, so that it goes with the process.
	Private bool
}

// left is the bundle of a process that is gone.
func (b Bundle) left() Bundle {
	return Bundle{Retired: append(b.Needed, b.Retired...), Keeps: b.Keeps}
}

// PEM is what is needed, newest first.
func (b Bundle) PEM() []byte { return encodeCAs(slices.Clone(b.Needed)) }

// Merge is the caBundle that follows on one. It is the same bytes when nothing is to be done; otherwise CAs are in an order that
// is the same whoever writes them, newest first. Of those that are not needed the newest stay, 20 in all. What cannot be read
// of the old one is dropped.
func (b Bundle) Merge(old []byte, now time.Time) []byte {
	found, err := parseCAs(old)
	stay := kept(found, func(c *x509.Certificate) bool {
		return !contains(b.Retired, c) && (contains(b.Needed, c) || b.Keeps != nil && b.Keeps(c) && now.Before(c.NotAfter))
	})
	if err == nil && len(stay) == len(found) && len(stay) <= max(mostCAs, len(b.Needed)) && len(without(b.Needed, stay)) == 0 {
		return old
	}
	others := without(stay, b.Needed)
	slices.SortFunc(others, newestFirst)
	others = others[:min(len(others), max(0, mostCAs-len(b.Needed)))]
	return encodeCAs(append(others, b.Needed...))
}

func newestFirst(a, b *x509.Certificate) int {
	if c := b.NotBefore.Compare(a.NotBefore); c != 0 {
		return c
	}
	return bytes.Compare(a.Raw, b.Raw)
}

// encodeCAs sorts and writes CAs, each once.
func encodeCAs(cas []*x509.Certificate) []byte {
	slices.SortFunc(cas, newestFirst)
	var out bytes.Buffer
	for _, c := range slices.CompactFunc(cas, (*x509.Certificate).Equal) {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a buffer takes all
	}
	return out.Bytes()
}

// parseCAs reads the certificates of a PEM text. With an error they are those that can be read.
func parseCAs(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	var faults []error
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			faults = append(faults, fmt.Errorf("it has %q among its certificates", block.Type))
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if !contains(out, c) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		faults = append(faults, errors.New("it has no certificate in PEM"))
	}
	return out, errors.Join(faults...)
}
