package certificates

import (
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

// TestKeysAreReadAsKubeletsMountThem: 0644 is what a Secret has unless its volume says otherwise, 0440 and 0640 what it has with an
// fsGroup. None is worth a line in the log: only processes of the container see it.
func TestKeysAreReadAsKubeletsMountThem(t *testing.T) {
	for _, mode := range []fs.FileMode{0o400, 0o440, 0o600, 0o640, 0o644} {
		t.Run(fmt.Sprintf("%04o", mode), func(t *testing.T) {
			clk := testclock.NewFakeClock(time.Now())
			ca, err := newAuthority(clk.Now(), time.Hour, "")
			require.NoError(t, err)
			s := newSecret(t)
			s.issue(t, ca, clk.Now())
			require.NoError(t, os.Chmod(s.path("tls.key"), mode))
			o := s.options(clk)
			var lines []string
			o.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 9})
			f, err := NewFiles(o)
			require.NoError(t, err)
			looks(f, clk, 1)
			require.Empty(t, lines)
			after, err := os.Stat(s.path("tls.key"))
			require.NoError(t, err)
			require.Equal(t, mode, after.Mode(), "it is left as it is")
		})
	}
}
