// Package standin serves from memory what celvpa's components ask of an API server: discovery,
// lists and watches as client-go's informers want them, metrics.k8s.io, statuses of
// VerticalPodAutoscalers, and checkpoints. It serves clusters of Kubernetes' limits to components that
// run as they are, on a machine that could not hold such a cluster's etcd.
//
// It checks nothing: no schema, no permission, no precondition. What depends on that is tested on a
// lab.
package standin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
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

const (
	asJSON     = "application/json"
	asProtobuf = runtime.ContentTypeProtobuf
)

// encoder writes objects of a kind in one format.
type encoder struct {
	Kind
	compact bool // protobuf
}

func encoderFor(r *http.Request, of *objects) encoder {
	builtIn := clientgoscheme.Scheme.Recognizes(of.GroupVersionKind)
	return encoder{of.Kind, builtIn && strings.Contains(r.Header.Get("Accept"), asProtobuf)}
}

func (e encoder) contentType() string {
	if e.compact {
		return asProtobuf
	}
	return asJSON
}

// encode returns an object of the encoder's kind with its kind, in a copy of its head only.
func (e encoder) encode(o runtime.Object) ([]byte, error) {
	if e.compact {
		var out bytes.Buffer
		s := clientgoscheme.Codecs.EncoderForVersion(protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme), e.GroupVersion())
		err := s.Encode(o, &out)
		return out.Bytes(), err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, e.GroupVersion().String(), e.Kind.Kind), bytes.TrimPrefix(text, []byte("{"))...), nil
}

// frame is a change as watches send it.
func (e encoder) frame(how watch.EventType, object []byte) ([]byte, error) {
	if !e.compact {
		return fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", how, object), nil
	}
	event := metav1.WatchEvent{Type: string(how), Object: runtime.RawExtension{Raw: object}}
	return event.Marshal()
}

// list answers with all objects at once. Informers stream them instead, unless they may not.
func (s *Server) list(w http.ResponseWriter, of *objects) {
	all, at := s.List(of.Plural)
	e := encoder{Kind: of.Kind} // who has no informer takes JSON, too
	w.Header().Set("Content-Type", asJSON)
	fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":%q},"items":[`, of.GroupVersion().String(), of.Kind.Kind+"List", at)
	for i, object := range all {
		text, err := e.encode(object)
		if err != nil {
			return // the answer ends too early, which the client reports
		}
		if i > 0 {
			_, _ = io.WriteString(w, ",")
		}
		_, _ = w.Write(text)
	}
	_, _ = io.WriteString(w, "]}")
}

// watch streams all objects, a bookmark that says that these were all, and then what changes.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, of *objects) {
	now, at, changes, end := s.follow(of.Plural)
	defer end()
	e := encoderFor(r, of)
	w.Header().Set("Content-Type", e.contentType())
	out := io.Writer(w)
	if e.compact {
		w.Header().Set("Content-Type", asProtobuf+";stream=watch")
		out = protobuf.LengthDelimitedFramer.NewFrameWriter(w)
	}
	flush := w.(http.Flusher).Flush
	send := func(how watch.EventType, o client.Object) bool {
		text, err := e.encode(o)
		if err == nil {
			text, err = e.frame(how, text)
		}
		if err == nil {
			_, err = out.Write(text)
		}
		return err == nil
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, o := range now {
			if !send(watch.Added, o) {
				return
			}
		}
		if !send(watch.Bookmark, e.bookmark(at)) {
			return
		}
	}
	now = nil
	flush()
	for {
		for _, c := range changes.take() {
			if !send(c.how, c.object) {
				return
			}
		}
		flush()
		select {
		case <-changes.woken:
		case <-r.Context().Done():
			return
		}
	}
}

// bookmark says that all objects of a kind were sent.
func (e encoder) bookmark(at string) client.Object {
	object, err := clientgoscheme.Scheme.New(e.GroupVersionKind)
	if err != nil { // a custom kind
		return &metav1.PartialObjectMetadata{ObjectMeta: endOfList(at)}
	}
	out := object.(client.Object)
	head := endOfList(at)
	out.SetResourceVersion(head.ResourceVersion)
	out.SetAnnotations(head.Annotations)
	return out
}

func endOfList(at string) metav1.ObjectMeta {
	return metav1.ObjectMeta{ResourceVersion: at, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
}

const vpaPlural = "verticalpodautoscalers"

// operation is one of a JSON patch.
type operation struct {
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// patchedStatus is the status that a patch replaces.
func patchedStatus(r *http.Request, into any) error {
	var patch []operation
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		return err
	}
	for _, o := range patch {
		if o.Path == "/status" {
			return json.Unmarshal(o.Value, into)
		}
	}
	return nil
}

// named is the object in a path such as apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME[/status].
func named(path string) (key client.ObjectKey) {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if part == "namespaces" && i+3 < len(parts) {
			return client.ObjectKey{Namespace: parts[i+1], Name: parts[i+3]}
		}
	}
	return key
}

// metadataOnly answers with the metadata of an object, if the client asks for no more.
func metadataOnly(w http.ResponseWriter, r *http.Request, object metav1.Object) (asked bool) {
	if asked = strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"); asked {
		answer(w, metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
			ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), ResourceVersion: object.GetResourceVersion()}})
	}
	return asked
}

// patchStatus replaces the status of a VerticalPodAutoscaler.
func (s *Server) patchStatus(w http.ResponseWriter, r *http.Request, path string) {
	var status vpav1.VerticalPodAutoscalerStatus
	if err := patchedStatus(r, &status); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	after, found := s.Update(vpaPlural, named(path), func(o client.Object) { o.(*vpav1.VerticalPodAutoscaler).Status = status })
	if !found {
		missing(w, path)
		return
	}
	if metadataOnly(w, r, after) {
		return
	}
	text, err := encoder{Kind: s.kinds[vpaPlural].Kind}.encode(after)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "InternalError", err.Error())
		return
	}
	w.Header().Set("Content-Type", asJSON)
	_, _ = w.Write(text)
}

const (
	checkpointGroup  = "apis/autoscaling.k8s.io/v1"
	checkpointPlural = "verticalpodautoscalercheckpoints"
)

// Checkpoints are VerticalPodAutoscalerCheckpoints as text: 100,000 of them as objects would take
// gigabytes.
type Checkpoints struct {
	mu    sync.Mutex
	all   map[client.ObjectKey]*checkpoint
	pages []client.ObjectKey // of the list that is being read
}

type checkpoint struct {
	vpa, container string
	status         []byte
}

// NewCheckpoints returns none.
func NewCheckpoints() *Checkpoints {
	return &Checkpoints{all: map[client.ObjectKey]*checkpoint{}}
}

// Put adds the checkpoint of a container of a VPA. Several may share a status.
func (c *Checkpoints) Put(vpa client.ObjectKey, container string, status []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[client.ObjectKey{Namespace: vpa.Namespace, Name: vpa.Name + "-" + container}] = &checkpoint{vpa.Name, container, status}
}

func (c *checkpoint) text(key client.ObjectKey) string {
	return fmt.Sprintf(`{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscalerCheckpoint","metadata":{"namespace":%q,"name":%q},"spec":{"vpaObjectName":%q,"containerName":%q},"status":%s}`,
		key.Namespace, key.Name, c.vpa, c.container, c.status)
}

// serve answers the requests of recommenders: lists in pages, and writes of one checkpoint.
func (c *Checkpoints) serve(w http.ResponseWriter, r *http.Request, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Method {
	case http.MethodGet:
		c.list(w, r)
	case http.MethodDelete:
		delete(c.all, named(path))
		answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	case http.MethodPatch:
		c.patch(w, r, path)
	case http.MethodPost:
		c.create(w, r)
	}
}

// list answers one page.
func (c *Checkpoints) list(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if from == 0 {
		c.pages = c.pages[:0]
		for key := range c.all {
			c.pages = append(c.pages, key)
		}
		slices.SortFunc(c.pages, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	}
	to := len(c.pages)
	next := ""
	if limit > 0 && from+limit < to {
		to = from + limit
		next = strconv.Itoa(to)
	}
	var items []string
	for _, key := range c.pages[from:to] {
		if found := c.all[key]; found != nil {
			items = append(items, found.text(key))
		}
	}
	w.Header().Set("Content-Type", asJSON)
	_, _ = io.WriteString(w, fmt.Sprintf(`{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscalerCheckpointList","metadata":{"resourceVersion":"1","continue":%q},"items":[%s]}`,
		next, strings.Join(items, ",")))
}

func (c *Checkpoints) patch(w http.ResponseWriter, r *http.Request, path string) {
	var status json.RawMessage
	if err := patchedStatus(r, &status); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	key := named(path)
	found := c.all[key]
	if found == nil {
		missing(w, path)
		return
	}
	found = &checkpoint{found.vpa, found.container, status}
	c.all[key] = found
	if metadataOnly(w, r, &metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: "1"}) {
		return
	}
	w.Header().Set("Content-Type", asJSON)
	_, _ = io.WriteString(w, found.text(key))
}

func (c *Checkpoints) create(w http.ResponseWriter, r *http.Request) {
	var object struct {
		Metadata struct{ Namespace, Name string }
		Spec     struct{ VPAObjectName, ContainerName string }
		Status   json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	key := client.ObjectKey{Namespace: object.Metadata.Namespace, Name: object.Metadata.Name}
	created := &checkpoint{object.Spec.VPAObjectName, object.Spec.ContainerName, object.Status}
	c.all[key] = created
	w.Header().Set("Content-Type", asJSON)
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, created.text(key))
}
