package history

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// headers is a flag that can be repeated. Its text never shows a value, which may be a secret.
type headers struct{ to *http.Header }

// ownHeaders are set by the client itself.
var ownHeaders = []string{"Authorization", "Content-Length", "Content-Type", "Host", "Transfer-Encoding", "Accept-Encoding"}

// Set implements pflag.Value.
func (h headers) Set(text string) error {
	name, value, found := strings.Cut(text, ":")
	name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
	switch {
	case !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
		return errors.New("it is not of the form NAME: VALUE, such as X-Scope-OrgID: team-a")
	case name == "Authorization":
		return errors.New("use --prometheus-bearer-token-file, or a user name: command lines can be seen by others")
	case slices.Contains(ownHeaders, name):
		return fmt.Errorf("header %s is set by celvpa itself", name)
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
