package certificates

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

// TestFilesThatAreStillWrittenToWait: what differs between two looks is not used, even where it could be read.
func TestFilesThatAreStillWrittenToWait(t *testing.T) {
	clk, s := testclock.NewFakeClock(newYear), newSecret(t)
	ca := someCA(t, newYear)
	s.issue(t, ca, newYear)
	f, err := NewFiles(s.options(clk))
	require.NoError(t, err)
	before := shown(t, f)
	for range 3 {
		s.issue(t, ca, newYear)
		looks(f, clk, 1)
		require.True(t, before.Equal(shown(t, f)))
	}
	looks(f, clk, 1)
	require.False(t, before.Equal(shown(t, f)))
}

// TestFilesSwappedWhileReadAreNotMixed: the Secret is swapped after the certificate was read and before its CA is. Without --reload-cert
// the mixture stayed in use for good.
func TestFilesSwappedWhileReadAreNotMixed(t *testing.T) {
	for name, swapBefore := range map[string]string{"between certificate and key": "tls.key", "between key and CA": "ca.crt"} {
		t.Run(name, func(t *testing.T) {
			clk, s := testclock.NewFakeClock(newYear), newSecret(t)
			s.issue(t, someCA(t, newYear), newYear)
			log, after := newMemo(), someCA(t, newYear)
			o := s.options(clk)
			o.Log, o.Reload = log.log(), false
			swapped := false
			o.readFile = func(path string) ([]byte, error) {
				if !swapped && filepath.Base(path) == swapBefore {
					swapped = true
					s.issue(t, after, newYear)
				}
				return os.ReadFile(path)
			}
			f, err := NewFiles(o)
			require.NoError(t, err)
			require.True(t, swapped)
			require.Empty(t, log.written())
			require.Equal(t, string(encodeCAs([]*x509.Certificate{after.cert})), string(f.Bundle().PEM()))
			require.NoError(t, believes(t, f, f.Bundle().PEM(), "127.0.0.1", newYear))
		})
	}
}

func TestFilesThatNeverSettleStopTheStart(t *testing.T) {
	clk, s := testclock.NewFakeClock(newYear), newSecret(t)
	n := 0
	o := s.options(clk)
	o.readFile = func(string) ([]byte, error) { n++; return []byte{byte(n), byte(n >> 8)}, nil }
	_, err := NewFiles(o)
	require.ErrorContains(t, err, "change with every reading")
}
