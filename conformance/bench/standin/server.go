// Package standin serves from memory what celvpa's components ask of an API server: discovery,
// lists and watches as client-go's informers want them, metrics.k8s.io, statuses of
// VerticalPodAutoscalers, and checkpoints. It serves clusters of Kubernetes' limits to components that
// run as they are, on a machine that could not hold such a cluster's etcd.
//
// It checks nothing: no schema, no permission, no precondition. What depends on that is tested on a
// lab.
package standin

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

// Server answers HTTP requests from a store.
type Server struct {
	*Store
	Checkpoints *Checkpoints
	// Usage is the answer to a list of metrics.k8s.io as protobuf; nil = it has no such API.
	Usage func() []byte
}

const usagePath = "apis/metrics.k8s.io/v1beta1"

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(r.URL.Path, "/")
	switch {
	case path == "version":
		answer(w, version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.1"})
	case path == "api":
		answer(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case path == "apis":
		answer(w, s.groups())
	case path == usagePath+"/pods" && s.Usage != nil:
		w.Header().Set("Content-Type", asProtobuf)
		_, _ = w.Write(s.Usage()) // fails for readers that have gone
	case strings.HasPrefix(path, checkpointGroup+"/") && strings.Contains(path, checkpointPlural):
		s.Checkpoints.serve(w, r, path)
	case r.Method == http.MethodPatch && strings.HasSuffix(path, "/status"):
		s.patchStatus(w, r, path)
	case r.Method == http.MethodPost: // events, and reviews of what is allowed, which nothing is
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	default:
		s.read(w, r, path)
	}
}

// read answers discovery of a group, lists and watches.
func (s *Server) read(w http.ResponseWriter, r *http.Request, path string) {
	for _, of := range s.kinds {
		if groupPath(of.GroupVersion()) == path {
			list := s.resources(of.GroupVersion())
			if path == checkpointGroup {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: checkpointPlural, Kind: "VerticalPodAutoscalerCheckpoint", Namespaced: true, Verbs: metav1.Verbs{"list"}})
			}
			answer(w, list)
			return
		}
		if of.path() == path {
			if r.URL.Query().Get("watch") != "" {
				s.watch(w, r, of)
			} else {
				s.list(w, of)
			}
			return
		}
	}
	missing(w, path)
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object) // fails for readers that have gone
}

func missing(w http.ResponseWriter, what string) {
	refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, what+" not found")
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: message})
}
