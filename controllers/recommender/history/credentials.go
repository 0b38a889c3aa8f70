package history

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// clientHeaders are set by the client itself.
var clientHeaders = []string{"Authorization", "Content-Length", "Content-Type", "Host", "Transfer-Encoding", "Accept-Encoding"}

// headers parses --prometheus-header. Errors show no value, which may be a secret.
func (c *Config) headers() (http.Header, error) {
	out := http.Header{}
	for _, text := range c.Headers {
		name, value, found := strings.Cut(text, ":")
		name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, errors.New("--prometheus-header: it is not of the form NAME: VALUE, such as X-Scope-OrgID: team-a")
		}
		if slices.Contains(clientHeaders, name) {
			return nil, fmt.Errorf("--prometheus-header: celvpa sets header %s itself; for credentials, use a user name or --prometheus-bearer-token-file", name)
		}
		out.Add(name, value)
	}
	return out, nil
}

// credentials are a token, or a user and password, or nothing.
type credentials struct{ token, username, password string }

// credentials reads the file of a token or a user, and the environment. A token goes before a user, a
// flag before the environment. Errors never show a secret.
func (c *Config) credentials() (credentials, error) {
	switch {
	case c.BasicAuthFile != "":
		text, err := secret("prometheus-basic-auth-file", c.BasicAuthFile)
		if err != nil {
			return credentials{}, err
		}
		user, password, found := strings.Cut(text, ":")
		if !found || user == "" || strings.ContainsAny(password, "\r\n") {
			return credentials{}, fmt.Errorf("--prometheus-basic-auth-file=%s is not of the form USER:PASSWORD, in one line", c.BasicAuthFile)
		}
		return credentials{username: user, password: password}, nil
	case c.BearerTokenFile != "":
		token, err := secret("prometheus-bearer-token-file", c.BearerTokenFile)
		if err != nil {
			return credentials{}, err
		}
		return bearer(token, "prometheus-bearer-token-file="+c.BearerTokenFile)
	case c.BearerToken != "":
		return bearer(c.BearerToken, "prometheus-bearer-token")
	}
	user := credentials{username: c.Username, password: c.Password}
	if user.username == "" {
		user.username = os.Getenv("PROMETHEUS_USERNAME")
	}
	if user.password == "" {
		user.password = os.Getenv("PROMETHEUS_PASSWORD")
	}
	switch {
	case user.username != "":
		return user, nil
	case c.Password != "":
		return credentials{}, errors.New("--password is set without a user: add --username or PROMETHEUS_USERNAME")
	}
	return credentials{}, nil // a password in the environment alone may be meant for another program
}

// secret is what a file holds, without white space around it.
func secret(flag, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading --%s=%s: %w", flag, path, err)
	}
	if out := strings.TrimSpace(string(text)); out != "" {
		return out, nil
	}
	return "", fmt.Errorf("--%s=%s is empty: write the secret into it or leave the flag out", flag, path)
}

func bearer(token, flag string) (credentials, error) {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return credentials{}, fmt.Errorf("--%s holds characters that no token has, such as a line break", flag)
	}
	return credentials{token: token}, nil
}

// signed adds headers and credentials to requests for one host. A redirect to another one does not
// carry them along.
type signed struct {
	config       *Config // its files are read for each request: kubelets renew tokens every hour
	headers      http.Header
	scheme, host string
	next         http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *signed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != s.scheme || r.URL.Host != s.host {
		return s.next.RoundTrip(r)
	}
	c, err := s.config.credentials()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	for name, values := range s.headers {
		r.Header[name] = values
	}
	switch {
	case c.token != "":
		r.Header.Set("Authorization", "Bearer "+c.token)
	case c != (credentials{}):
		r.SetBasicAuth(c.username, c.password)
	}
	return s.next.RoundTrip(r)
}
