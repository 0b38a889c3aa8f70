package history

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// headers is a flag that can be repeated. Its text never shows a value, which may be a secret; nor do
// its errors, so Validate reports them: pflag would quote the value.
type headers struct {
	to     *http.Header
	faults *[]error
}

// ownHeaders are set by the client itself.
var ownHeaders = []string{"Authorization", "Content-Length", "Content-Type", "Host", "Transfer-Encoding", "Accept-Encoding"}

// Set implements pflag.Value.
func (h headers) Set(text string) error {
	name, value, found := strings.Cut(text, ":")
	name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
	var why string
	switch {
	case !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
		why = "it is not of the form NAME: VALUE, such as X-Scope-OrgID: team-a"
	case name == "Authorization":
		why = "for Authorization, use --prometheus-bearer-token-file, or a user name: command lines can be seen by others"
	case slices.Contains(ownHeaders, name):
		why = "header " + name + " is set by celvpa itself"
	}
	if why != "" {
		*h.faults = append(*h.faults, errors.New("--prometheus-header: "+why))
		return nil
	}
	if *h.to == nil {
		*h.to = http.Header{}
	}
	h.to.Add(name, value)
	return nil
}

// Type implements pflag.Value.
func (h headers) Type() string { return "header" }

// String implements pflag.Value.
func (h headers) String() string {
	if h.to == nil {
		return ""
	}
	var out []string
	for name := range *h.to {
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
