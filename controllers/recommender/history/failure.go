package history

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
)

// class is what the failure of a query means for those after it.
type class int

const (
	refused class = iota // it never succeeds, and others like it do not either
	away                 // the server or a part of it is away, starting, busy or failing: another try may succeed
	large                // it asks for too much: half of it may succeed
	slow                 // it takes too long: half of it may succeed, but a try takes minutes
)

// failure is a query that failed.
type failure struct {
	class
	text        string
	hint        string // the way out, if there is one
	unreachable bool   // there was no answer at all, for no reason of the query's own
	cause       error
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// Unwrap is what the client reports.
func (f *failure) Unwrap() error { return f.cause }

// failureOf says what an error of the client means. status is that of the answer, 0 = none came.
// expired: the query had no time left.
func (c *Config) failureOf(err error, status int, expired bool) *failure {
	f := &failure{cause: err, text: err.Error(), class: away} // no answer came, or it ended in the middle
	var answer *promapi.Error
	var transport *url.Error
	var limit *http.MaxBytesError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &limit):
		f.class, f.text = large, fmt.Sprintf("the answer is longer than %d MiB", limit.Limit>>20)
	case expired:
		f.class = slow
	case errors.As(err, &certificate):
		f.class, f.unreachable = refused, true
	case errors.As(err, &answer):
		var kind promapi.ErrorType
		kind, f.text = reason(answer)
		f.class = classOf(kind, f.text, status)
		if f.class == refused && kind == promapi.ErrClient {
			f.hint = " (see " + c.addressFlag() + " and the flags for credentials)"
		}
	default:
		f.unreachable = status == 0 && errors.As(err, &transport)
	}
	switch {
	case f.class == slow:
		f.hint = " (read less, with --history-length or --history-resolution, or allow more time, with --prometheus-query-timeout and Prometheus's --query.timeout)"
	case status == http.StatusTooManyRequests:
		f.hint = " (ask less often, with --prometheus-qps)"
	}
	return f
}

// reason is the type of a failed query, and what there is to say about it. The client reads bodies of
// the API only with status 400 and 422; others, such as a proxy's, are quoted.
func reason(answer *promapi.Error) (promapi.ErrorType, string) {
	var body struct {
		Type  promapi.ErrorType `json:"errorType"`
		Error string            `json:"error"`
	}
	if json.Unmarshal([]byte(answer.Detail), &body) == nil && body.Type != "" && body.Error != "" {
		return body.Type, string(body.Type) + ": " + body.Error
	}
	if answer.Detail != "" {
		return answer.Type, answer.Error() + ": " + answer.Detail
	}
	return answer.Type, answer.Error()
}

// words are those by which servers say what went wrong, in this order: a store that cannot be reached
// may have timed out, and a deadline is exceeded, too.
var words = []struct {
	class
	pattern *regexp.Regexp
}{
	{refused, regexp.MustCompile(`(?i)parse error|many-to|multiple matches|duplicate series|same labelset`)},
	{away, regexp.MustCompile(`(?i)unavailable|connection (refused|reset)|error while dialing|no such host|transport is closing`)},
	{away, regexp.MustCompile(`(?i)too many (outstanding |concurrent )?(requests|queries)|rate limit`)},
	{slow, regexp.MustCompile(`(?i)timed? ?out|deadline ?exceeded`)},
	{large, regexp.MustCompile(`(?i)too (many|large|long)|(more|larger|longer) than|exceed|limit`)},
}

// classOf classes an answer that is an error. The status decides, as what stands before a server
// answers in its place, and as servers do not agree on types; then the words do.
func classOf(kind promapi.ErrorType, text string, status int) class {
	switch {
	case status == http.StatusTooManyRequests:
		return away
	case status == http.StatusRequestEntityTooLarge:
		return large
	case status == http.StatusGatewayTimeout, status == http.StatusRequestTimeout, kind == promapi.ErrTimeout, kind == promapi.ErrCanceled:
		return slow
	case kind == promapi.ErrBadResponse:
		return refused
	case kind == promapi.ErrServer: // the client's word for a status
		return away
	}
	said := away
	for _, w := range words {
		if w.pattern.MatchString(text) {
			said = w.class
			break
		}
	}
	ran := status == http.StatusOK || status == http.StatusUnprocessableEntity || status >= http.StatusInternalServerError || kind == promapi.ErrExec
	switch {
	case kind == promapi.ErrBadData, kind == promapi.ErrClient, !ran:
		if said == large && (status == http.StatusBadRequest || ran) { // limits have these types, too
			return large
		}
		return refused
	}
	return said
}

// wholePrefixes begin warnings that do not mean that an answer lacks anything. The first two are
// remarks about the query, which older servers put among the warnings; the third is about a time in
// which a Thanos has no stores.
var wholePrefixes = []string{"PromQL info", "PromQL warning", "No StoreAPIs matched"}

// Partial are the warnings that say that stores failed, and the answer lacks what they hold.
func Partial(warnings promapi.Warnings) (out []string) {
	for _, text := range warnings {
		if !slices.ContainsFunc(wholePrefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) }) {
			out = append(out, text)
		}
	}
	return out
}

// maxExample is how many bytes of a series, an answer or a warning are quoted.
const maxExample = 300

// faults counts what went wrong by kind, and quotes the first of each, so that the text stays short
// whatever Prometheus holds.
type faults []*fault

// fault is one kind of fault. It reads "series without label pod_name in answers about m: 12, e.g. …".
type fault struct {
	text, example string
	count         int
	rest          string // what follows from it
	cause         error  // of the example; may be nil
}

// Error implements error.
func (f *fault) Error() string {
	return fmt.Sprintf("%s: %d, e.g. %s", f.text, f.count, f.example) + f.rest
}

// Unwrap is the cause of the first of these faults.
func (f *fault) Unwrap() error { return f.cause }

func (f *faults) add(text, example string, cause error) *fault {
	i := slices.IndexFunc(*f, func(known *fault) bool { return known.text == text })
	if i < 0 {
		i = len(*f)
		*f = append(*f, &fault{text: text, example: shorten(example), cause: cause})
	}
	(*f)[i].count++
	return (*f)[i]
}

// err is nil without faults, otherwise all of them, one a line.
func (f faults) err() error {
	var errs []error
	for _, fault := range f {
		errs = append(errs, fault)
	}
	return errors.Join(errs...)
}

// shorten makes a text one line of at most maxExample bytes.
func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxExample {
		return text
	}
	return strings.ToValidUTF8(text[:maxExample], "") + "…"
}
