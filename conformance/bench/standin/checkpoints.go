package standin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
