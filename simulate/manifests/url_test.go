package manifests

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManifestsAreReadFromAServer: redirects are followed, and errors name the address and what the server says.
func TestManifestsAreReadFromAServer(t *testing.T) {
	const object = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"
	mux := http.NewServeMux()
	answer := func(path, kind, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(text))
		})
	}
	answer("/two.yaml", "text/plain; charset=utf-8", fmt.Sprintf(object+"---\n"+object, "one", "two"))
	answer("/list.json", "application/json", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"listed"}}]}`)
	answer("/page", "text/html", "<html></html>")
	answer("/broken.yaml", "text/yaml", "a: [")
	answer("/large.yaml", "text/yaml", strings.Repeat("a: b\n", 1000))
	mux.Handle("/moved", http.RedirectHandler("/two.yaml", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	gone := httptest.NewServer(mux)
	gone.Close()
	for path, want := range map[string]string{
		server.URL + "/two.yaml":    "one two",
		server.URL + "/list.json":   "listed",
		server.URL + "/moved":       "one two",
		server.URL + "/none.yaml":   "cannot read " + server.URL + "/none.yaml: the server answers 404 Not Found",
		server.URL + "/page":        "cannot read " + server.URL + "/page: it is a web page",
		server.URL + "/loop":        "cannot read " + server.URL + "/loop: stopped after 10 redirects",
		server.URL + "/broken.yaml": server.URL + "/broken.yaml:1:",
		server.URL + "/large.yaml":  "cannot read " + server.URL + "/large.yaml: it takes too much memory",
		gone.URL + "/two.yaml":      "cannot read " + gone.URL + "/two.yaml: dial tcp",
		strings.Replace(server.URL, "//", "//me:secret@", 1) + "/none.yaml": "//me:xxxxx@",
	} {
		set, err := Files{Paths: []string{path}, memory: 100_000}.Read(nil)
		if err != nil {
			require.ErrorContains(t, err, want, path)
			require.NotContains(t, err.Error(), "secret")
			continue
		}
		var names []string
		for _, d := range set.Documents {
			names = append(names, d.Name)
			require.Equal(t, strings.Replace(path, "secret", "xxxxx", 1), d.Source.File)
		}
		require.Equal(t, want, strings.Join(names, " "), path)
	}
}
