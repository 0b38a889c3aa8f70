package faults

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Request is a request as API servers classify it: its verb, resource, namespace and name.
type Request struct{ *apirequest.RequestInfo }

// String is the verb and the resource, as in "patch pods/resize"; the path of a request that is not about a resource.
func (r Request) String() string {
	if !r.IsResourceRequest {
		return r.Verb + " " + r.Path
	}
	return r.Verb + " " + r.resource()
}

func (r Request) resource() string {
	if r.Subresource != "" {
		return r.Resource + "/" + r.Subresource
	}
	return r.Resource
}

var classifier = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// requestOf classifies a request. One that an API server could not classify is known by its path.
func requestOf(r *http.Request) Request {
	info, err := classifier.NewRequestInfo(r)
	if err != nil {
		info = &apirequest.RequestInfo{Verb: r.Method, Path: r.URL.Path}
	}
	return Request{info}
}

// classified and connection are the keys of a request's context.
type (
	classified struct{} // a Request
	connection struct{} // a net.Conn
)

func requestIn(r *http.Request) Request { return r.Context().Value(classified{}).(Request) }

// Match selects requests.
type Match func(Request) bool

// On selects requests for a resource, such as pods/eviction, by verb; no verb = all verbs.
func On(resource string, verbs ...string) Match {
	return func(r Request) bool {
		return r.IsResourceRequest && r.resource() == resource && (len(verbs) == 0 || slices.Contains(verbs, r.Verb))
	}
}

// Calls selects all requests about resources but watches.
func Calls(r Request) bool { return r.IsResourceRequest && r.Verb != "watch" }

// Watches selects all watches.
func Watches(r Request) bool { return r.Verb == "watch" }

// selects reports whether a request is meant; no Match selects all.
func (m Match) selects(r Request) bool { return m == nil || m(r) }
