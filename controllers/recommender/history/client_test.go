package history

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/celvpa/celvpa/conformance/hang"
)

// TestAnswersWithoutEndAreNotHeld: of a Prometheus that answers without an end, no more than the bound
// is held, and half of the time is asked for.
func TestAnswersWithoutEndAreNotHeld(t *testing.T) {
	const begins = `{"status":"success","data":{"resultType":"matrix","result":[`
	for name, part := range map[string]string{
		"a text":             `{"status":"success","error":"` + strings.Repeat("x", 4096),
		"points of a series": begins + `{"metric":{"namespace":"a"},"values":[` + strings.Repeat(`[1,"1"],`, 512),
		"series":             begins + strings.Repeat(`{"metric":{"namespace":"a","pod":"b","c":"d"},"values":[]},`, 100),
	} {
		t.Run(name, func(t *testing.T) {
			address, asked := recorded(t, func(w http.ResponseWriter, of request) bool {
				for endless := of.steps > 4; endless; {
					if _, err := w.Write([]byte(part)); err != nil {
						return true
					}
				}
				return false
			})
			s, clk := source(t, address)
			s.client.maxAnswer = 1 << 20
			require.Less(t, hang.Bytes(t, func() {
				pods, err := s.Load(t.Context(), now)
				require.Len(t, pods[0].Samples(), 2*61)
				require.NotContains(t, err.Error(), "failed")
			}), uint64(100<<20))
			require.Empty(t, clk.waited)
			require.Less(t, len(asked(cpu)), 20)
		})
	}
}

// TestALoadIsBounded: what came before the bound counts.
func TestALoadIsBounded(t *testing.T) {
	address, _ := recorded(t, nil)
	s, _ := source(t, address, "--history-length=20d")
	s.maxPoints = 1 << 14
	pods, err := s.Load(t.Context(), now)
	require.ErrorContains(t, err, "history has more than 16384 samples, and the rest is not read; read less, with --history-length or --history-resolution")
	require.Len(t, pods, 1)
	require.Less(t, len(pods[0].Samples()), 1<<15)
}
