package standin

import (
	"encoding/json"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	vpav1 "github.com/celvpa/celvpa/crds/v1"
)

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
