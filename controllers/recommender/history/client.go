package history

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/celvpa/celvpa/controllers/metric"
)

// Metric names and labels are upstream's (UPSTREAM.md §6).
var (
	requests = metric.Counter("vpa_recommender_prometheus_client_api_requests_count", "Responses of Prometheus to history queries, by status code and method.", "code", "method")

	requestSeconds = metric.New.NewHistogramVec(prometheus.HistogramOpts{
		Name: "vpa_recommender_prometheus_client_api_requests_duration_seconds",
		Help: "Duration of history queries to Prometheus, by status code and method.",
		Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2, 5, 10, 20, 30, 60, 120,
			300},
	}, []string{"code", "method"})
)

// client speaks to the Prometheus of c with its credentials, through a transport of its own.
func (c *Config) client() (promapi.API, error) {
	address, err := url.Parse(c.Address)
	if err != nil {
		return nil, c.checkAddress()
	}
	who, err := c.credentials() // faults end the process here, not when it leads
	if err != nil {
		return nil, err
	}
	transport := c.Transport
	if transport == nil {
		transport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			TLSClientConfig:       &tls.Config{InsecureSkipVerify: c.Insecure},
			ForceAttemptHTTP2:     true,
			IdleConnTimeout:       10 * time.Second, // history is read once
			ExpectContinueTimeout: time.Second,
		}
	}
	transport = promhttp.InstrumentRoundTripperCounter(requests, promhttp.InstrumentRoundTripperDuration(requestSeconds, transport))
	if who != (credentials{}) || len(c.Headers) > 0 {
		transport = &signed{credentials: c.credentials, headers: c.Headers, scheme: address.Scheme, host: address.Host, next: transport}
	}
	transport = bounded{transport}
	client, err := api.NewClient(api.Config{Address: c.Address})
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", c.addressFlag(), err)
	}
	return promapi.NewAPI(&streamed{Client: client, http: http.Client{Transport: transport}}), nil
}

// credentials are a token, or a user and password, or nothing.
type credentials struct{ token, username, password string }

// credentials reads the file of a token or a user, and the environment. A token goes before a user, a
// flag before the environment.
func (c *Config) credentials() (credentials, error) {
	if c.BasicAuthFile != "" {
		return c.basicAuth()
	}
	token := c.BearerToken
	from := "--prometheus-bearer-token"
	if c.BearerTokenFile != "" {
		from = "--prometheus-bearer-token-file=" + c.BearerTokenFile
		text, err := os.ReadFile(c.BearerTokenFile)
		if err != nil {
			return credentials{}, fmt.Errorf("reading the token of %s: %w", from, err)
		}
		if token = strings.TrimSpace(string(text)); token == "" {
			return credentials{}, fmt.Errorf("%s is empty: write a token into it or leave the flag out", from)
		}
	}
	if token != "" {
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return credentials{}, fmt.Errorf("%s holds characters that no token has, such as a line break", from)
		}
		return credentials{token: token}, nil
	}
	who := credentials{username: c.Username, password: c.Password}
	if who.username == "" {
		who.username = os.Getenv("PROMETHEUS_USERNAME")
	}
	if who.password == "" {
		who.password = os.Getenv("PROMETHEUS_PASSWORD")
	}
	switch {
	case who.username != "":
		return who, nil
	case c.Password != "":
		return credentials{}, errors.New("--password is set without a user: add --username or PROMETHEUS_USERNAME")
	}
	return credentials{}, nil // a password in the environment alone may be meant for another program
}

// basicAuth reads USER:PASSWORD from a file. What it says never holds the password.
func (c *Config) basicAuth() (credentials, error) {
	text, err := os.ReadFile(c.BasicAuthFile)
	if err != nil {
		return credentials{}, fmt.Errorf("reading the user of --prometheus-basic-auth-file=%s: %w", c.BasicAuthFile, err)
	}
	user, password, found := strings.Cut(strings.TrimSpace(string(text)), ":")
	if !found || user == "" || strings.ContainsAny(password, "\r\n") {
		return credentials{}, fmt.Errorf("--prometheus-basic-auth-file=%s is not of the form USER:PASSWORD, in one line", c.BasicAuthFile)
	}
	return credentials{username: user, password: password}, nil
}
