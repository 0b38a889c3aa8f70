package history

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	prommodel "github.com/prometheus/common/model"

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

// maxAnswer bounds an answer, in bytes: the labels of 250,000 pods.
const maxAnswer = 256 << 20

// client is the HTTP client of the Prometheus API. It keeps of the last answer what the API does not
// pass on, as queries are sent one after another.
type client struct {
	api.Client // for URLs
	http       http.Client
	maxAnswer  int64
	last       response
}

// response is what there is to say about an answer besides its values; zero = none came.
type response struct {
	status  int
	after   time.Duration // Retry-After
	partial bool          // it lacks what some nodes of a VictoriaMetrics cluster hold; Thanos adds a warning instead
}

// client speaks to the Prometheus of c with its credentials, through a transport of its own.
func (c *Config) client() (*client, error) {
	address, err := c.url()
	if err != nil {
		return nil, err
	}
	if _, err := c.credentials(); err != nil { // they end the process here, not when it leads
		return nil, err
	}
	headers, err := c.headers()
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
	transport = &signed{config: c, headers: headers, scheme: address.Scheme, host: address.Host, next: transport}
	urls, err := api.NewClient(api.Config{Address: c.Address})
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", c.addressFlag(), err)
	}
	return &client{Client: urls, http: http.Client{Transport: transport}, maxAnswer: maxAnswer}, nil
}

// Do implements api.Client.
func (c *client) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	answer, err := c.http.Do(r.WithContext(ctx))
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(http.MaxBytesReader(nil, answer.Body, c.maxAnswer))
	c.last = response{status: answer.StatusCode, after: retryAfter(answer.Header), partial: bytes.Contains(body, []byte(`"isPartial":true`))}
	return answer, body, err
}

// retryAfter is how long a server wants to be left alone; 0 = it does not say, or not in seconds.
func retryAfter(answer http.Header) time.Duration {
	seconds, err := strconv.ParseUint(answer.Get("Retry-After"), 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// query is one question to the server: the values in a range of time, or at its end if it has no step.
type query struct {
	text string
	span promapi.Range
}

func (c *client) query(ctx context.Context, q query) (value prommodel.Value, warnings promapi.Warnings, err error) {
	c.last = response{}
	if q.span.Step == 0 {
		value, warnings, _, err = promapi.NewAPI(c).Query(ctx, q.text, q.span.End)
	} else {
		value, warnings, _, err = promapi.NewAPI(c).QueryRange(ctx, q.text, q.span)
	}
	return value, warnings, err
}
