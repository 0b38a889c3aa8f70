package freshness

import "net/http"

// Outdated is the error of a request that was not sent.
type Outdated struct{ Reason string }

func (o Outdated) Error() string { return "not sent: " + o.Reason }

// Guard returns a transport that sends nothing while outdated gives a reason, but fails with Outdated.
func Guard(next http.RoundTripper, outdated func() string) http.RoundTripper {
	return guard{next, outdated}
}

type guard struct {
	http.RoundTripper
	outdated func() string
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if reason := g.outdated(); reason != "" {
		return nil, Outdated{reason}
	}
	return g.RoundTripper.RoundTrip(r)
}
