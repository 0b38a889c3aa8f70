package history

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTenantsMatchersAndCredentials(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	var got *http.Request
	s := serve(t, 1)
	s.before = func(_ http.ResponseWriter, r *http.Request, _ int, _ span) bool {
		got = r
		return false
	}
	_, _, err := read(t, s.URL+"/prometheus", "--history-length=1h", "--prometheus-header=x-scope-orgid: a|b", "--prometheus-matchers=cluster=prod", `--prometheus-matchers=namespace=~"web|shop"`,
		"--prometheus-bearer-token-file="+file("token", "s3cret\n"))
	require.NoError(t, err)
	require.Equal(t, "/prometheus/api/v1/query_range", got.URL.Path)
	require.Equal(t, "a|b", got.Header.Get("X-Scope-OrgID"))
	require.Equal(t, "Bearer s3cret", got.Header.Get("Authorization"))
	require.Contains(t, got.FormValue("query"), `cluster="prod", namespace=~"web|shop"}`)

	_, _, err = read(t, s.URL, "--history-length=1h", "--prometheus-basic-auth-file="+file("user", "celvpa:open: sesame\n"))
	require.NoError(t, err)
	user, password, _ := got.BasicAuth()
	require.Equal(t, "celvpa open: sesame", user+" "+password)

	_, _, err = read(t, s.URL, "--prometheus-basic-auth-file="+file("none", "celvpa"))
	require.ErrorContains(t, err, "is not of the form USER:PASSWORD")
}

func TestARedirectDoesNotCarryTheTenantElsewhere(t *testing.T) {
	var got http.Header
	elsewhere := serve(t, 1)
	elsewhere.before = func(_ http.ResponseWriter, r *http.Request, _ int, _ span) bool {
		got = r.Header
		return false
	}
	s := serve(t, 1)
	s.before = func(w http.ResponseWriter, r *http.Request, _ int, _ span) bool {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}
	_, _, err := read(t, s.URL, "--history-length=1h", "--prometheus-header=X-Scope-OrgID: a")
	require.NoError(t, err)
	require.Empty(t, got.Get("X-Scope-OrgID"))
}
