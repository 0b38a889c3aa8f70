package history

import (
	"crypto/tls"
	"encoding/json"
	"errors"
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
	unclear class = iota // the answer says nothing
	refused              // it never succeeds, and others like it do not either
	away                 // the server or a part of it is away, starting or failing: another try may succeed
	busy                 // there are too many queries: another try may succeed later
	large                // it asks for too much: half of it may succeed
	slow                 // it takes too long: half of it may succeed, but a try takes minutes
)

// failure is a query that failed.
type failure struct {
	class
	kind promapi.ErrorType // what the answer calls it; empty without one
	text string            // kind, and what there is to say
	// unreached: there was no answer at all, for no reason of the query's own.
	unreached bool
	cause     error
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// Unwrap is what the client reports.
func (f *failure) Unwrap() error { return f.cause }

// classOf is the class of an error of ask.
func classOf(err error) class {
	var f *failure
	if errors.As(err, &f) {
		return f.class
	}
	return unclear
}

// failureOf says what an error of the client means. status is that of the answer, 0 = none came.
// expired: the query had no time left.
func failureOf(err error, status int, expired bool) *failure {
	f := &failure{cause: err, text: err.Error()}
	var answer *promapi.Error
	var transport *url.Error
	var here unsigned
	var much tooMuch
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &much):
		f.class = large
	case expired:
		f.class = slow
	case errors.As(err, &certificate):
		f.class, f.unreached = refused, true
	case errors.As(err, &answer):
		f.kind, f.text = reason(answer)
		f.class = answered(f.kind, f.text, status)
	case errors.As(err, &here): // the file of the credentials is being written
		f.class = away
	default: // no answer came, or it ended in the middle
		f.class, f.unreached = away, status == 0 && errors.As(err, &transport)
	}
	return f
}

// answered classes an answer that is an error. The status decides, as what stands before a server
// answers in its place, and as servers do not agree on types. What has none of its own is classed by
// what it says.
func answered(kind promapi.ErrorType, text string, status int) class {
	api := kind != promapi.ErrServer && kind != promapi.ErrClient // it is not the client's word for a status
	switch {
	case status == http.StatusTooManyRequests:
		return busy
	case status == http.StatusRequestEntityTooLarge:
		return large
	case status == http.StatusGatewayTimeout, status == http.StatusRequestTimeout, kind == promapi.ErrTimeout, kind == promapi.ErrCanceled:
		return slow
	case kind == promapi.ErrBadResponse:
		return unclear
	case status >= http.StatusInternalServerError:
		if said := saidBy(text); api && said != unclear {
			return said
		}
		return away
	case kind == promapi.ErrBadData, kind == promapi.ErrClient && (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity):
		if saidBy(text) == large { // Prometheus, Thanos and Mimir have a limit each, under these types
			return large
		}
		return refused
	case kind == promapi.ErrExec, status == http.StatusOK, status == http.StatusUnprocessableEntity: // the query ran
		if said := saidBy(text); said != unclear {
			return said
		}
		return away
	}
	return refused
}

// says are the words by which servers say what went wrong, in this order: a store that cannot be
// reached may have timed out, and a deadline is exceeded, too.
var says = []struct {
	class
	words *regexp.Regexp
}{
	{refused, regexp.MustCompile(`(?i)parse error|many-to|multiple matches|duplicate series|same labelset`)},
	{away, regexp.MustCompile(`(?i)unavailable|connection (refused|reset)|error while dialing|no such host|transport is closing`)},
	{busy, regexp.MustCompile(`(?i)too many (outstanding |concurrent )?(requests|queries)|rate limit`)},
	{slow, regexp.MustCompile(`(?i)timed? ?out|deadline ?exceeded`)},
	{large, regexp.MustCompile(`(?i)too (many|large|long)|(more|larger|longer) than|exceed|limit`)},
}

func saidBy(text string) class {
	for _, one := range says {
		if one.words.MatchString(text) {
			return one.class
		}
	}
	return unclear
}

// reason is the type of a failed query, and what there is to say about it. The body of answers that
// are not of the API, such as a proxy's, is quoted.
func reason(answer *promapi.Error) (promapi.ErrorType, string) {
	// The client reads bodies of the API only with status 400 and 422.
	var body struct {
		Type  promapi.ErrorType `json:"errorType"`
		Error string            `json:"error"`
	}
	if json.Unmarshal([]byte(answer.Detail), &body) == nil && body.Type != "" && body.Error != "" {
		return body.Type, string(body.Type) + ": " + body.Error
	}
	if detail := strings.TrimSpace(answer.Detail); detail != "" {
		return answer.Type, answer.Error() + ": " + detail
	}
	return answer.Type, answer.Error()
}

// whole are warnings that do not mean that an answer lacks anything. The first two are remarks about
// the query, which older servers put among the warnings; the third is about a time in which a Thanos
// has no stores.
var whole = []string{"PromQL info", "PromQL warning", "No StoreAPIs matched"}

// Partial are the warnings that say that stores failed, and the answer lacks what they hold.
func Partial(warnings promapi.Warnings) (out []string) {
	for _, text := range warnings {
		if !slices.ContainsFunc(whole, func(begin string) bool { return strings.HasPrefix(text, begin) }) {
			out = append(out, text)
		}
	}
	return out
}
