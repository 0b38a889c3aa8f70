package faults

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Effect is what happens to a request.
type Effect struct {
	Name string // in Counts

	// happen has the request answered, or leaves it to be forwarded. over is closed when the Fault ends.
	happen func(p *Proxy, w http.ResponseWriter, r *http.Request, over <-chan struct{}) (answered bool)
}

// Answer refuses requests with the status that API servers have for an HTTP code, e.g. 409, 410, 429, 500, 503 or 504.
func Answer(code int) Effect {
	return Effect{Name: strconv.Itoa(code), happen: func(_ *Proxy, w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
		refuse(w, r, code, 0)
		return true
	}}
}

// AnswerLater is Answer with a Retry-After of some seconds, after which clients try again by themselves.
func AnswerLater(code, seconds int) Effect {
	return Effect{Name: strconv.Itoa(code) + " Retry-After", happen: func(_ *Proxy, w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
		refuse(w, r, code, seconds)
		return true
	}}
}

func refuse(w http.ResponseWriter, r *http.Request, code, retryAfter int) {
	request := requestIn(r)
	status := apierrors.NewGenericServerResponse(code, request.Verb, schema.GroupResource{Group: request.APIGroup, Resource: request.Resource},
		request.Name, "refused by a fault", retryAfter, false).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	if code == http.StatusGone {
		status.Reason = metav1.StatusReasonExpired
	}
	w.Header().Set("Content-Type", "application/json")
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status)
}

// Hang does not answer until the client gives up or the fault ends. The request never reaches the API server.
func Hang() Effect {
	return Effect{Name: "hang", happen: func(_ *Proxy, _ http.ResponseWriter, r *http.Request, over <-chan struct{}) bool {
		select {
		case <-over:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}}
}

// Reset drops the connection of the client, and with it all that it waits for.
func Reset() Effect {
	return Effect{Name: "reset", happen: func(_ *Proxy, _ http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
		reset(r)
		return true
	}}
}

// unanswered is what becomes of a request that the API server does not answer, because it is gone, unless the client has gone.
func unanswered(r *http.Request) {
	if r.Context().Err() == nil {
		reset(r)
	}
	panic(http.ErrAbortHandler)
}

// reset does not return.
func reset(r *http.Request) {
	conn, _ := r.Context().Value(connection{}).(net.Conn)
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // RST instead of FIN
		_ = tcp.Close()
	}
	panic(http.ErrAbortHandler)
}

// Lose lets the API server carry out the request, and drops its answer. It is for calls: a watch has no answer that ends.
func Lose() Effect {
	return Effect{Name: "lose", happen: func(p *Proxy, _ http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
		p.forward.ServeHTTP(nowhere{}, r)
		panic(http.ErrAbortHandler)
	}}
}

// nowhere drops an answer.
type nowhere struct{}

// Header implements http.ResponseWriter.
func (nowhere) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (nowhere) WriteHeader(int) {}

// Delay forwards a request after some time.
func Delay(by time.Duration) Effect {
	return Effect{Name: "delay", happen: func(_ *Proxy, _ http.ResponseWriter, r *http.Request, over <-chan struct{}) bool {
		select {
		case <-time.After(by):
		case <-over:
		case <-r.Context().Done():
		}
		return false
	}}
}
