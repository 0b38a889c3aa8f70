package standin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
