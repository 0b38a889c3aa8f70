package webhook

import (
	"bytes"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quick reads an AdmissionReview in the form in which API servers write them, which have plain text where text is wanted, and looks
// at nothing twice. The objects are parts of the body. It is not ok where anything is out of the ordinary, and all is for a
// more thorough reader then.
func quick(body []byte) (in incoming, ok bool) {
	c := &cutter{body: body}
	end, ok := c.members(c.blank(0), func(key []byte, i int) (int, bool) {
		switch string(key) {
		case "apiVersion":
			return c.plain(i, &in.APIVersion)
		case "kind":
			return c.plain(i, &in.Kind)
		case "request":
			if in.Request != nil {
				return 0, false // a second request
			}
			in.Request = &incomingRequest{}
			return c.members(i, func(key []byte, i int) (int, bool) { return c.requestInto(in.Request, key, i) })
		}
		return 0, false
	})
	return in, ok && c.blank(end) == len(body)
}

// requestInto reads one member of a request.
func (c *cutter) requestInto(r *incomingRequest, key []byte, i int) (end int, ok bool) {
	switch string(key) {
	case "uid":
		return c.plain(i, (*string)(&r.UID))
	case "kind":
		return c.three(i, &r.Kind.Group, &r.Kind.Version, "kind", &r.Kind.Kind)
	case "resource":
		return c.three(i, &r.Resource.Group, &r.Resource.Version, "resource", &r.Resource.Resource)
	case "requestKind":
		if r.RequestKind == nil {
			r.RequestKind = &metav1.GroupVersionKind{}
		}
		return c.three(i, &r.RequestKind.Group, &r.RequestKind.Version, "kind", &r.RequestKind.Kind)
	case "requestResource":
		if r.Requested == nil {
			r.Requested = &metav1.GroupVersionResource{}
		}
		return c.three(i, &r.Requested.Group, &r.Requested.Version, "resource", &r.Requested.Resource)
	case "subResource":
		return c.plain(i, &r.SubResource)
	case "name":
		return c.plain(i, &r.Name)
	case "namespace":
		return c.plain(i, &r.Namespace)
	case "operation":
		return c.plain(i, (*string)(&r.Operation))
	case "object":
		return c.whole(i, &r.Object.Raw)
	case "oldObject":
		return c.whole(i, &r.OldObject.Raw)
	case "dryRun":
		end, ok = c.value(i)
		text := string(c.body[i:max(i, end)])
		dry := text == "true"
		r.DryRun = &dry
		return end, ok && (dry || text == "false")
	case "userInfo", "options":
		if c.body[i] != '{' {
			return 0, false
		}
		return c.value(i)
	}
	return 0, false
}

// plain reads a text in which nothing is written in another way.
func (c *cutter) plain(i int, into *string) (end int, ok bool) {
	if c.body[i] != '"' {
		return 0, false
	}
	if end, ok = c.text(i); !ok {
		return 0, false
	}
	text := c.body[i+1 : end-1]
	for _, b := range text {
		if b < ' ' || b >= 0x7f || b == '\\' {
			return 0, false
		}
	}
	*into = known(text)
	return end, true
}

// known is a text that needs no memory of its own where it is one of those that nearly all reviews have.
func known(text []byte) string {
	switch string(text) {
	case "":
		return ""
	case "v1":
		return "v1"
	case "Pod":
		return "Pod"
	case "pods":
		return "pods"
	case "CREATE":
		return string(admissionv1.Create)
	case "AdmissionReview":
		return reviewType.Kind
	case "admission.k8s.io/v1":
		return reviewType.APIVersion
	}
	return string(text)
}

// three reads an object of three texts.
func (c *cutter) three(i int, group, version *string, name string, third *string) (end int, ok bool) {
	return c.members(i, func(key []byte, i int) (int, bool) {
		switch string(key) {
		case "group":
			return c.plain(i, group)
		case "version":
			return c.plain(i, version)
		case name:
			return c.plain(i, third)
		}
		return 0, false
	})
}

// whole finds an object.
func (c *cutter) whole(i int, into *[]byte) (end int, ok bool) {
	if *into != nil {
		return 0, false // there are two
	}
	if end, ok = c.value(i); ok && !bytes.Equal(c.body[i:end], []byte("null")) {
		*into = c.body[i:end:end]
		return end, c.body[i] == '{'
	}
	return end, ok
}
