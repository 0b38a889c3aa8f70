package usagefile

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
)

// TestUsageFilesThatMakeNoSenseFailFast: deep nesting and huge expansion.
func TestUsageFilesThatMakeNoSenseFailFast(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(bytes.Repeat([]byte("x"), 16<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for name, text := range map[string]string{
		"lists in lists":       `{"status":"success","data":{"result":` + strings.Repeat("[", 200_000),
		"objects in objects":   strings.Repeat(`{"data":`, 200_000),
		"a line without end":   packed.String(),
		"cut off in the midst": `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{`,
	} {
		t.Run(name, func(t *testing.T) {
			bytes := hang.Bytes(t, func() {
				u, notes, err := Read([]string{Stdin}, strings.NewReader(text))
				require.Error(t, err)
				require.Empty(t, u.Rows)
				require.Less(t, len(err.Error()), 64<<10)
				require.Less(t, len(strings.Join(notes, "\n")), 64<<10)
			})
			require.Less(t, bytes, uint64(128<<20))
		})
	}
}
