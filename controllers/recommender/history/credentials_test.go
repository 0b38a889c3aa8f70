package history

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

// TestFilesOfCredentialsAreReadForEachQuery: a replica may wait for days until it leads and reads
// history; kubelets renew tokens every hour.
func TestFilesOfCredentialsAreReadForEachQuery(t *testing.T) {
	for flag, row := range map[string]struct{ before, after, header string }{
		"--prometheus-bearer-token-file": {before: "old", after: "new\n", header: "Bearer new"},
		"--prometheus-basic-auth-file":   {before: "u:old", after: "u:new\n", header: "Basic dTpuZXc="},
	} {
		t.Run(flag, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != row.header {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				_, _ = w.Write([]byte(within(r, matrix(series("ns", "p", "c", -5, 1)))))
			}))
			t.Cleanup(server.Close)
			file := filepath.Join(t.TempDir(), "secret")
			write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
			write(row.before)
			c := parsed(t, "--prometheus-address="+server.URL, "--history-length=1h", "--history-resolution=1m")
			if flag == "--prometheus-bearer-token-file" {
				c.BearerTokenFile = file
			} else {
				c.BasicAuthFile = file
			}
			clk := &hasty{}
			s, err := New(c, clk, logr.Discard())
			require.NoError(t, err)

			write(row.after)
			pods, _ := s.Load(t.Context(), now)
			require.Len(t, pods, 1)
			require.Empty(t, clk.waited)

			require.NoError(t, os.Remove(file))
			_, err = s.Load(t.Context(), now)
			require.ErrorContains(t, err, flag+"="+file+": open")
			require.NotContains(t, err.Error(), "secret: old")
			require.Len(t, clk.waited, 5, "somebody may be writing it")
		})
	}
}

func TestHeadersAreCheckedAndNeverShown(t *testing.T) {
	c := parsed(t, "--prometheus-header=X-Scope-OrgID: s3cret", "--prometheus-header=THANOS-TENANT:b")
	got, err := c.headers()
	require.NoError(t, err)
	require.Equal(t, http.Header{"Thanos-Tenant": {"b"}, "X-Scope-Orgid": {"s3cret"}}, got)
	for text, want := range map[string]string{
		"X-Scope-OrgID s3cret":  "--prometheus-header: it is not of the form NAME: VALUE",
		"A B: s3cret":           "--prometheus-header: it is not of the form NAME: VALUE",
		"A: b\ns3cret":          "--prometheus-header: it is not of the form NAME: VALUE",
		"authorization: s3cret": "celvpa sets header Authorization itself; for credentials, use a user name or --prometheus-bearer-token-file",
		"Host: s3cret":          "celvpa sets header Host itself",
	} {
		c := parsed(t, "--prometheus-header="+text)
		require.ErrorContains(t, c.Validate(), want, text)
		require.NotContains(t, c.Validate().Error(), "s3cret")
	}
}
