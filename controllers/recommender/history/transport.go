package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	prommodel "github.com/prometheus/common/model"
)

// unsigned is why a request was not sent: there are no credentials for it.
type unsigned struct{ error }

// Unwrap returns the cause.
func (u unsigned) Unwrap() error { return u.error }

// signed adds headers and credentials to requests for one host. A redirect to another one does not
// carry them along.
type signed struct {
	credentials  func() (credentials, error) // asked for each request: files of tokens are renewed every hour
	headers      http.Header
	scheme, host string
	next         http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *signed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == s.scheme && r.URL.Host == s.host {
		who, err := s.credentials()
		if err != nil {
			return nil, unsigned{err}
		}
		r = r.Clone(r.Context())
		for name, values := range s.headers {
			r.Header[name] = values
		}
		switch {
		case who.token != "":
			r.Header.Set("Authorization", "Bearer "+who.token)
		case who != (credentials{}):
			r.SetBasicAuth(who.username, who.password)
		}
	}
	return s.next.RoundTrip(r)
}

// bounded ends answers that are too long to be held, and notes what the client does not pass on.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	got := replyOf(r.Context())
	*got = reply{status: answer.StatusCode, after: waitOf(answer.Header)}
	answer.Body = newBoundedBody(answer.Body, answerBounds, got)
	return answer, nil
}

type boundedBody struct {
	io.ReadCloser
	bounds bounds
	left   int64 // bytes of the answer
	value  int64 // and of the series at hand
	got    *reply
}

func newBoundedBody(body io.ReadCloser, of bounds, got *reply) *boundedBody {
	return &boundedBody{ReadCloser: body, bounds: of, left: of.text, value: of.series, got: got}
}

// Read implements io.Reader.
func (b *boundedBody) Read(into []byte) (int, error) {
	switch {
	case b.left <= 0:
		b.got.broken = tooMuch(fmt.Sprintf("the answer is longer than %d MiB", b.bounds.text>>20))
	case b.value <= 0:
		b.got.broken = tooMuch(fmt.Sprintf("one of its series is longer than %d MiB", b.bounds.series>>20))
	}
	if b.got.broken != nil {
		return 0, b.got.broken
	}
	n, err := b.ReadCloser.Read(into[:min(int64(len(into)), b.left)])
	b.left -= int64(n)
	b.value -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.got.broken = err
	}
	return n, err
}

// reply is what the client does not pass on of the last answer to a query; zero = none came.
type reply struct {
	status int
	after  time.Duration // that the server wants to be left alone
	// partial: it lacks what some nodes of a VictoriaMetrics cluster hold. Thanos adds a warning instead.
	partial bool
	series  []*prommodel.SampleStream // of a vector, too
	broken  error                     // why it was not read to its end
}

// replyKey marks the *reply in a context.
type replyKey struct{}

func withReply(ctx context.Context, to *reply) context.Context {
	return context.WithValue(ctx, replyKey{}, to)
}

// replyOf is the *reply of a context; without one nobody asks for it.
func replyOf(ctx context.Context) *reply {
	if got, ok := ctx.Value(replyKey{}).(*reply); ok {
		return got
	}
	return &reply{}
}

// waitOf is how long a server wants to be left alone (RFC 9110, 10.2.3); 0 = it does not say.
func waitOf(answer http.Header) time.Duration {
	text := answer.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(time.Duration(seconds)*time.Second, 0)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	from, err := http.ParseTime(answer.Get("Date"))
	if err != nil {
		return 0
	}
	return max(at.Sub(from), 0)
}
