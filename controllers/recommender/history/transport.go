package history

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// longestText bounds one answer, in bytes.
const longestText = 256 << 20

// errLongAnswer is an answer of more than longestText.
var errLongAnswer = errors.New("the answer is longer than 256 MiB")

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
	got, ok := r.Context().Value(replyKey{}).(*reply)
	if !ok {
		got = &reply{}
	}
	*got = reply{status: answer.StatusCode, after: waitOf(answer.Header)}
	answer.Body = &boundedBody{ReadCloser: answer.Body, left: longestText, got: got}
	return answer, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64
	got  *reply
}

// Read implements io.Reader.
func (b *boundedBody) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongAnswer
	}
	n, err := b.ReadCloser.Read(into[:min(int64(len(into)), b.left)])
	b.left -= int64(n)
	b.got.head = append(b.got.head, into[:min(n, headLength-len(b.got.head))]...)
	return n, err
}

// headLength holds what stands in an answer before its data, in bytes.
const headLength = 256

// reply is what the client does not pass on of the last answer to a query; zero = none came.
type reply struct {
	status int
	after  time.Duration // that the server wants to be left alone
	head   []byte        // of the body
}

// isPartial reports whether the answer lacks what some nodes of a VictoriaMetrics cluster hold. It
// says so in a key of its own before the data, where Thanos adds a warning.
func (r *reply) isPartial() bool {
	before, _, _ := bytes.Cut(r.head, []byte(`"data"`))
	return bytes.Contains(before, []byte(`"isPartial":true`))
}

// replyKey marks the *reply in a context.
type replyKey struct{}

func withReply(ctx context.Context, to *reply) context.Context {
	return context.WithValue(ctx, replyKey{}, to)
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
