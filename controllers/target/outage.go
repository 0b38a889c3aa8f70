package target

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// silent reports whether a failure concerns the API of a kind as a whole, as opposed to one object:
// its server does not answer, or says that it cannot. What fails before it is sent, such as a
// request that the client cannot form, says nothing about a server.
func silent(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return errors.As(err, new(net.Error)) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
	}
	switch answer.Status().Reason {
	case metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonTooManyRequests:
		return true
	case metav1.StatusReasonUnknown:
		return answer.Status().Code >= http.StatusInternalServerError
	}
	return false
}

// nameable reports whether an object can have this name and namespace: clients refuse to put others
// into a path.
func (k Key) nameable() bool {
	return len(rest.IsValidPathSegmentName(k.Name)) == 0 && len(rest.IsValidPathSegmentName(k.Namespace)) == 0
}

// probes are, by kind with an outage whose retry is due, the object with the most recent answer. One
// that never gets an answer, for reasons of its own, must not decide about all others. s.mu is held.
func (s *Scales) probes(now time.Time) map[schema.GroupKind]Key {
	out := map[schema.GroupKind]Key{}
	if len(s.outages) == 0 {
		return out
	}
	for k, e := range s.entries {
		kind := k.groupKind()
		if s.outages[kind] == nil || e.answered.IsZero() || e.busy != nil || now.Sub(e.read) > scaleForget || s.held(k, e, now) != nil {
			continue
		}
		if best, ok := out[kind]; !ok || e.answered.After(s.entries[best].answered) {
			out[kind] = k
		}
	}
	return out
}
