package reliability

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/harness"
)

// logOf is where the log of a process is kept.
func logOf(t *testing.T, name string) string {
	t.Helper()
	root, err := harness.Root()
	require.NoError(t, err)
	return filepath.Join(root, "bin", "reliability", name+".log")
}

// goesOn waits until a fault has gone on for some time, which is what it is about.
func goesOn(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
