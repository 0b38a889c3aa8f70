package history

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	prommodel "github.com/prometheus/common/model"
)

// Matcher is what a label of a series has to be like.
type Matcher struct {
	Label    string
	Operator string // =, !=, =~ or !~
	Value    string
}

var matcherForm = regexp.MustCompile(`^\s*([^=!~\s]+)\s*(=~|!~|!=|=)\s*(.*?)\s*$`)

// ParseMatcher reads a matcher as PromQL writes it, such as cluster="a" or namespace=~"a|b". The
// quotes may be left out, for a shell's sake.
func ParseMatcher(text string) (Matcher, error) {
	parts := matcherForm.FindStringSubmatch(text)
	if parts == nil {
		return Matcher{}, fmt.Errorf(`%q is not a matcher such as cluster="a" or namespace=~"a|b"`, text)
	}
	m := Matcher{Label: parts[1], Operator: parts[2], Value: parts[3]}
	if !prommodel.UTF8Validation.IsValidLabelName(m.Label) || strings.ContainsAny(m.Label, "{}[]()\"', ") {
		return Matcher{}, fmt.Errorf("%q: %q is no name of a label", text, m.Label)
	}
	if m.Value != "" && strings.ContainsRune("\"`'", rune(m.Value[0])) {
		quoted := m.Value
		if quoted[0] == '\'' && len(quoted) > 1 && quoted[len(quoted)-1] == '\'' && !strings.ContainsAny(quoted[1:len(quoted)-1], `'"\`) {
			quoted = `"` + quoted[1:len(quoted)-1] + `"`
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return Matcher{}, fmt.Errorf("%q: the quotes of %s do not match; one --history-matcher holds one matcher", text, m.Value)
		}
		m.Value = value
	}
	if strings.HasSuffix(m.Operator, "~") {
		if _, err := regexp.Compile(m.Value); err != nil {
			return Matcher{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	return m, nil
}

// String is the matcher as PromQL writes it.
func (m Matcher) String() string { return m.Label + m.Operator + strconv.Quote(m.Value) }

// matchers is a flag that can be repeated.
type matchers struct{ to *[]Matcher }

// Set implements pflag.Value.
func (m matchers) Set(text string) error {
	one, err := ParseMatcher(text)
	*m.to = append(*m.to, one)
	return err
}

// Type implements pflag.Value.
func (m matchers) Type() string { return "matcher" }

// String implements pflag.Value.
func (m matchers) String() string {
	if m.to == nil {
		return ""
	}
	var out []string
	for _, one := range *m.to {
		out = append(out, one.String())
	}
	return strings.Join(out, ",")
}

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
		return fmt.Errorf("it is not of the form NAME: VALUE, such as X-Scope-OrgID: team-a")
	case name == "Authorization":
		return fmt.Errorf("use --prometheus-bearer-token-file or --prometheus-basic-auth-file: command lines can be seen by others")
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
